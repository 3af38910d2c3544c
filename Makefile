# Flyball: what people type. Each target does all of its own set-up.

CARGO ?= cargo
# Root measures nowhere below a folder of somebody else's, as a checkout is in which one types `sudo make demo`.
DEMO ?= $(shell if [ "$$(id -u)" = 0 ] && [ "$$(stat -c %u .)" != 0 ]; then echo /var/lib/flyball-demo; else echo "$(CURDIR)/flyball-demo"; fi)

# The pages of docs/studies, in the order of their index. `make book NOTEBOOK=DIR` takes the newest runs of that notebook first.
BOOK := raid10-governors dmcrypt-ondemand raid5-journal oltp-governors raid-levels
NOTEBOOK ?=

# Where `make install` installs.
PREFIX ?= /usr/local
export PREFIX DESTDIR

.PHONY: help build install uninstall release release-check demo book test test-all promises bench clean

help:
	@echo 'make demo    install what is missing, build, measure this machine for a minute and a half, simulate a published report'
	@echo 'make build   target/release/flyball, and its debug information beside it'
	@echo 'make install  the program, man pages, completions, studies and unit, below PREFIX (/usr/local); DESTDIR=DIR for packages'
	@echo 'make uninstall  what that installed'
	@echo 'make release  target/release-files: a static program as tarball, .deb and .rpm, bill of materials, checksums'
	@echo 'make release-check  tries those in roots of Debian and Ubuntu, and in a machine that boots (needs root)'
	@echo 'make book    docs/studies and docs/gallery anew from the runs kept there; NOTEBOOK=DIR takes the newest runs of that notebook first'
	@echo 'make test    install what the tests need, then run everything that is checked; a part of what takes long'
	@echo 'make test-all  the same, and the whole of what takes long'
	@echo 'make promises  docs/PROMISES.md from tests that run whole, in an hour and a half; HOURS=3: in three'
	@echo 'make bench   the side-by-side benchmarks in benches/'
	@echo 'make clean   remove what was built and what the demo left'

build:
	@scripts/setup build
	@. scripts/rust-env && $(CARGO) build --release --locked
	@scripts/split-debug target/release/flyball

install: build
	@scripts/install target/release/flyball

uninstall: build
	@scripts/install --uninstall target/release/flyball

release:
	@scripts/setup release
	@scripts/release

release-check:
	@scripts/setup release-check
	@scripts/release-check

demo:
	@scripts/setup demo
	@. scripts/rust-env && $(CARGO) build --release --locked
	@scripts/split-debug target/release/flyball
	@# Code 3: measured, but on a machine so busy that a cell has no undisturbed trial. The report says so.
	@target/release/flyball --notebook '$(DEMO)/notebook' check --dir '$(DEMO)' || [ $$? -eq 3 ]
	@echo
	@echo 'And a published report, simulated, beside its own figures:'
	@target/release/flyball --notebook '$(DEMO)/notebook' run studies/published/raid10.toml --on sim
	@command -v flyball >/dev/null || { \
	    echo 'The commands above, as they stand, need this first:'; \
	    echo '    export PATH="$(CURDIR)/target/release:$$PATH"'; }
	@echo 'Next, in a virtual machine: target/release/flyball lab run studies/dmcrypt-ondemand.toml'

book: build
	target/release/flyball $(if $(NOTEBOOK),--notebook '$(NOTEBOOK)') report --published $(BOOK:%=studies/%.toml) --pages docs/studies $(if $(NOTEBOOK),--update)
	target/release/flyball $(if $(NOTEBOOK),--notebook '$(NOTEBOOK)') report --published $(sort $(wildcard studies/gallery/*.toml)) --pages docs/gallery $(if $(NOTEBOOK),--update)

test:
	@scripts/setup test
	@scripts/test

test-all:
	@scripts/setup test
	@FLYBALL_TEST_WHOLE=1 scripts/test

promises:
	@scripts/setup test
	@. scripts/rust-env && $(CARGO) build --release --locked --workspace && $(CARGO) xtask promises $(if $(HOURS),--hours $(HOURS))

bench:
	@scripts/setup test
	@. scripts/rust-env && benches/recorder/run.py

clean:
	@. scripts/rust-env && $(CARGO) clean
	rm -rf '$(DEMO)'
