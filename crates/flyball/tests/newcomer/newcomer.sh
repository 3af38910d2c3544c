# Somebody who has read nothing: types the command given, and then twice what the screen names first under
# Next. Prints each command with its exit code and how long it took, and what it showed.
export COLUMNS=80
command=$*
shown=$(mktemp)
for number in 1 2 3; do
    begun=$(date +%s)
    sh -c "$command" > "$shown" 2> "$shown.messages"
    code=$?
    echo "@@ $number|$code|$(($(date +%s) - begun)) s|$command"
    cat "$shown"
    [ $code = 0 ] || [ $code = 3 ] || cat "$shown.messages"
    # A command may go on behind a backslash, on the next line.
    next=$(sed -n '/^Next /,$p' "$shown" | sed -n '/^    flyball /{:more
/\\$/{N
s/ *\\\n */ /
b more
}
s/^ *//
p
q
}')
    [ -n "$next" ] || break
    command=$next
done
rm -f "$shown" "$shown.messages"
