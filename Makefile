# make run    sets everything up, fetches the default model, and talks to it (one sample answer when not on a terminal)
# make test   builds and checks everything
# make build  the program alone: build/release/martlet

PROGRAM := build/release/martlet

.PHONY: run test build setup model clean

run: build model
	@$(PROGRAM) run

test:
	@tools/setup test
	@tools/test

build: setup
	@[ -f build/release/build.ninja ] || cmake --preset release -DMARTLET_TESTS=OFF >build/configure.log || { cat build/configure.log; exit 1; }
	@cmake --build --preset release --target martlet

setup:
	@mkdir -p build
	@tools/setup build

model:
	@tools/fetch_default_model

clean:
	rm -rf build
