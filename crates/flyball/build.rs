//! Relocations of the position-independent program are packed: 10 KB for 800. The loader of glibc 2.36
//! (Debian 12) and later reads them; a linker that does not know the word passes over it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
}
