//! Builds the C shim: the variadic functions, which stable Rust cannot define.

fn main() {
    println!("cargo::rerun-if-changed=src/shim.c");
    cc::Build::new().file("src/shim.c").flag("-std=gnu11").opt_level(2).compile("afflux_shim");
}
