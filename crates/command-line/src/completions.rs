//! A shell's completion script. Commands and options come from the definition of the
//! arguments; names of runs, studies, machines and settings come from `flyball complete` when the user asks.

use crate::Cli;
use clap::{Command, CommandFactory};
use clap_complete::Shell;

/// The completion script for a shell.
pub fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(), "flyball", &mut script);
    let fixed = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => fixed.replace("complete -F _flyball ", "complete -F _flyball_names ") + BASH,
        Shell::Zsh => match fixed.rsplit_once(ZSH_END) {
            Some((functions, end)) => format!("{functions}{ZSH}{ZSH_END}{end}"),
            None => fixed,
        },
        Shell::Fish => fixed.lines().map(fish_line).collect::<String>() + FISH,
        _ => fixed,
    }
}

/// The program without the commands that it starts itself: clap's scripts for zsh and fish offer hidden ones.
fn visible() -> Command {
    let all = Cli::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("flyball")
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(shown)
}

/// What the program offers takes the place of clap's words for it, such as `<RUN>`.
const BASH: &str = r#"
_flyball_names() {
    local name names=()
    _flyball "$@"
    while IFS= read -r name; do
        names+=("$name")
    done < <("$1" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if ((${#names[@]})); then
        COMPREPLY=("${names[@]}")
    fi
}
"#;

/// With what zsh's script ends: it calls its main function, or defines it.
const ZSH_END: &str = "if [ \"$funcstack[1]\" = \"_flyball\" ]; then";

const ZSH: &str = r#"functions[_flyball_fixed]=$functions[_flyball]
_flyball() {
    local -a names
    names=("${(@f)$(command "${(Q)words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$names[1]" ]]; then
        compadd -a names
        return
    fi
    _flyball_fixed "$@"
}

"#;

/// A line of fish's script, in which the value of an option is a name as well where clap knows no values.
fn fish_line(line: &str) -> String {
    match line.strip_suffix(" -r") {
        Some(option) => format!("{option} -r -a '(__fish_flyball_names)'\n"),
        None => format!("{line}\n"),
    }
}

/// No files are offered beside names, which the program gives where files belong there too.
const FISH: &str = r#"
function __fish_flyball_names
    set -l words (commandline -opc)
    command $words[1] complete -- $words[2..] (commandline -ct) 2>/dev/null
end
function __fish_flyball_has_names
    set -l names (__fish_flyball_names)
    test -n "$names"
end
complete -c flyball -n __fish_flyball_has_names -f -a '(__fish_flyball_names)'
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_script_asks_the_program_for_names() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            assert_eq!(script.matches(" complete -- ").count(), 1, "{shell}");
        }
        assert_eq!(script(Shell::Bash).matches("complete -F _flyball_names").count(), 2);
        let zsh = script(Shell::Zsh);
        assert!(zsh.find("_flyball_fixed]=").unwrap() < zsh.find(ZSH_END).unwrap());
    }
}
