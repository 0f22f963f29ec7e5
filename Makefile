# What people type. HACKING.md says what each is for.
CARGO ?= cargo
AFFLUX = target/release/afflux

.PHONY: all build quickstart test soak lint deps bench presets bench-search-lab figures clean

all: build

build:
	$(CARGO) build --release --package afflux --package afflux-preload

# The main job: a lab, contention, control, and what it gained. No root, cleaned up.
quickstart: build
	$(AFFLUX) quickstart

test: lint
	$(CARGO) test --workspace

# Tests that kill processes, at more points than `make test` does.
soak:
	AFFLUX_KILLS=1000 $(CARGO) test --package afflux-node --test it -- death step_by_step --nocapture
	AFFLUX_KILLS=1000 $(CARGO) test --package afflux --test under -- killed --nocapture

lint:
	$(CARGO) fmt --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

# Debian packages without which tests would skip. They need root: the package manager asks.
deps:
	apt-get update
	apt-get install -y --no-install-recommends chromium fio stress-ng sqlite3 git \
		libpython3.11-testsuite libc6-dev glusterfs-server iproute2 fuse3

# Criterion benchmarks, with the targets beside what was measured.
bench:
	@mkdir -p out
	$(CARGO) bench --workspace --benches | tee out/bench.txt
	@echo
	@awk -f bench/table.awk out/bench.txt

# Long: every preset under every kind of control, on a lab of disks; writes docs/presets.md.
presets: build
	bench/presets.sh $(AFFLUX) docs/presets.md

# Long: three searches of BUDGET each on one preset, with confirming runs.
BUDGET ?= 30min
bench-search-lab: build
	bench/search-lab.sh $(AFFLUX) out/search-lab $(BUDGET)

# Figures from the simulator, as bench/figures.list says, into out/figures.
figures: build
	bench/figures.sh $(AFFLUX) bench/figures.list out/figures

clean:
	$(CARGO) clean
