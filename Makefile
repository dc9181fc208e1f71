# The first supported python3 that works (a shim may be on PATH that does not), or the one behind it
# where that is an active environment's; PYTHON=... chooses another.
SUPPORTED := 3.11 3.12 3.13 3.14 3.15
PYTHON ?= $(firstword $(foreach v,$(SUPPORTED) 3,$(shell python$(v) -c "import sys; print(sys._base_executable)" 2>/dev/null)))

# VERSIONS says of what an environment is made: `locked` is what constraints.txt pins, `newest` what
# the index has, `lowest` the least that pyproject.toml allows and a wheel is there for. Each has an
# environment of its own.
# TORCH=2.13.0 installs that version of torch too, so that its tests run. An exact version: the
# newest would bring gigabytes of CUDA along.
VERSIONS ?= locked
comma := ,
VENV ?= .venv$(if $(filter-out locked,$(VERSIONS)),-$(VERSIONS))
DIST ?= dist
RUN := $(VENV)/bin/python
DEVELOPED := $(VENV)/.developed-$(VERSIONS)$(TORCH)

# uv installs where it is here and finds an index, else pip. The lowest versions are chosen by uv
# alone, which pip brings.
UV ?= $(shell uv --version >/dev/null 2>&1 && echo uv)
PIP := "$(RUN)" -m pip install --quiet --disable-pip-version-check --no-compile
UV_PIP := pip install --quiet --python "$(RUN)"
CHOSEN_locked := --constraint constraints.txt
CHOSEN_newest := --upgrade
CHOSEN_lowest := --resolution=lowest-direct --only-binary=:all: --no-binary=posenc-cli
BY_UV = "$(or $(UV),$(VENV)/bin/uv)" $(UV_PIP) $(1) $(CHOSEN_$(VERSIONS))
BY_PIP = $(PIP) $(1) $(CHOSEN_$(VERSIONS))
ifeq ($(VERSIONS),lowest)
install = $(if $(UV),,$(PIP) uv && )$(BY_UV)
else
install = $(if $(UV),$(BY_UV) || )$(BY_PIP)
endif
EXTRAS := dev$(if $(TORCH),$(subst locked,$(comma)frameworks,$(filter locked,$(VERSIONS))))

ifeq ($(PYTHON),)
$(error posenc needs Python 3.11 or later: install it, or name it with make PYTHON=...)
endif

# An environment of another PYTHON, or one that no longer works, is made anew.
ifneq ($(shell cat $(VENV)/.python 2>/dev/null && $(RUN) -c "print('works')" 2>/dev/null),$(PYTHON) works)
.PHONY: $(VENV)/.python
endif

.PHONY: demo test check coverage sweeps interpreters pythons packages not-run sdist package lint types layers docs site browser browser-packages gallery bench mutants fuzz peers format lock clean

## demo: install posenc into .venv, do the main job, look at it, and catch a wrong RoPE (the README's first command)
POSENC = $(RUN) -m posenc_cli
demo: $(VENV)/.installed
	@echo '== Write the tables of a rotary encoding'
	$(POSENC) generate --scheme rope --len 4096
	@echo '== Draw them'
	$(POSENC) heatmap --in rope-4096x64.npy --rows 0:128
	@echo '== Check a wrong port of the RoPE of Llama 3.1'
	$(POSENC) rope-check --model llama-3.1-8b --len 4096 --impl posenc_cli.examples.llama:rotate || [ $$? = 1 ]
	@printf '%s\n' '' 'The port is wrong, and this is why. Next:' '  . .venv/bin/activate' \
		'  posenc explain llama-3.1-8b' '  posenc spectrum --model llama-3.1-8b' '  posenc identify rope-4096x64.npy'

## test: every file of tests but what takes long, and few examples of each property
# SHARE=8 runs every eighth test: what other Pythons and versions are tried on in `make check`.
SHARE ?= 1
OTHERS := 12
test: $(DEVELOPED)
	$(RUN) -m pytest -n 2 -m "not (slow or long)" --one-in $(SHARE) --hypothesis-profile=test

## check: everything that must hold before a change lands
check: lint types layers docs gallery coverage sweeps pythons

## coverage: all tests but the slow ones, with branch coverage, which has a floor
coverage: $(DEVELOPED)
	$(RUN) -m coverage erase
	$(RUN) -m coverage run -m pytest -n 3 --dist worksteal -m "not slow" --hypothesis-profile=test --durations 20
	$(RUN) -m coverage combine -q
	$(RUN) -m coverage report

## sweeps: the slow tests, and all examples of each property, without coverage; EXAMPLES=new draws others
EXAMPLES ?= check
sweeps: $(DEVELOPED)
	$(RUN) -m pytest -n 4 --dist worksteal -m "slow or hypothesis" --durations 20 --hypothesis-profile=$(EXAMPLES)

# The newest Python that is here: for it alone there is the newest NumPy.
NEWEST = $(or $(shell "$(PYTHON)" tools/pythons.py $(SUPPORTED) | sed -n '/missing/!s/^[^ ]* //p' | tail -n 1),$(PYTHON))

## interpreters: the path of each supported Python, or "missing"; REQUIRED="3.11 3.12" makes a missing one an error
REQUIRED ?=
interpreters:
	@"$(PYTHON)" tools/pythons.py --required "$(REQUIRED)" $(SUPPORTED)

## packages: install what tests need, and run none; make TASK=packages on-3.12-lowest stops there
TASK ?= test
packages: $(DEVELOPED)

## pythons: a share of make test on each supported Python that is here, with the lowest, the locked and the newest
## versions; on-3.12-lowest is one of them; make types with the newest of all; at the end, which Pythons were not run
ON := $(foreach version,$(SUPPORTED),$(foreach set,lowest locked newest,on-$(version)-$(set)))
pythons: $(ON)
	@$(MAKE) --no-print-directory not-run

## not-run: which supported Pythons are not installed, so that nothing was tested with them
not-run:
	@"$(PYTHON)" tools/pythons.py $(SUPPORTED) | sed -n 's/\(.*\) missing/not run: Python \1 is not installed/p'

.PHONY: $(ON)
$(ON): on-%: $(DEVELOPED)
	@echo "== Python and versions: $*"
	@types=; set="$(lastword $(subst -, ,$*))" version="$(firstword $(subst -, ,$*))"; \
	python="$$("$(PYTHON)" tools/pythons.py "$$version")"; python="$${python#* }"; \
	if [ "$$python" = missing ]; then echo "Python $$version is not here"; exit; fi; \
	if [ "$(TASK) $$set $$python" = "test newest $(NEWEST)" ]; then types=types; fi; \
	$(MAKE) --no-print-directory $$types $(TASK) SHARE=$(OTHERS) TORCH= PYTHON="$$python" VERSIONS="$$set" \
		VENV=".venv-$*" UV="$(abspath $(VENV)/bin/uv)"

## sdist: the source distribution, into DIST
sdist: $(DEVELOPED)
	$(RUN) -m hatchling build --target sdist --directory "$(DIST)"

## package: source distribution and wheel, checked, and tried by pip, pipx and uv on each supported Python that is here
package: $(DEVELOPED)
	UV="$(abspath $(VENV)/bin/uv)" "$(RUN)" tools/package.py "$(DIST)" $(SUPPORTED)

## lint: ruff, rules and format
lint: $(DEVELOPED)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

## types: mypy --strict
types: $(DEVELOPED)
	$(RUN) -m mypy

## layers: imports go downward only
layers: $(DEVELOPED)
	$(VENV)/bin/lint-imports

## docs: the generated parts of the README and of docs/ are up to date, pictures and manual pages too
docs: $(DEVELOPED)
	$(RUN) tools/pages.py --check
	$(RUN) tools/man.py --check

## site: the documentation as a site, in SITE; no link and no anchor of it may be broken
SITE ?= site
site: $(DEVELOPED)
	$(call install,-e ".[dev$(comma)docs]")
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --site-dir "$(abspath $(SITE))"

## browser: pages and the site in Chromium, light and dark, on a desk and on a phone: what readers see, point at and move
browser: browser-packages
	$(RUN) -m pytest tests/browser

browser-packages: $(DEVELOPED)
	$(call install,-e ".[dev$(comma)docs$(comma)browser]")

## bench: ratios against floors and peers, side by side; the pages quote the saved result
bench: $(DEVELOPED)
	$(RUN) -m benchmarks
	$(RUN) tools/pages.py

## mutants: how many small changes of posenc's own code its tests see; takes an hour
mutants: $(DEVELOPED)
	$(call install,-e ".[dev$(comma)mutants]")
	$(RUN) tools/mutants.py

## fuzz: search every reader and the config resolver for bytes that end in a fault, SECONDS each, guided by coverage
SECONDS ?= 600
fuzz: $(DEVELOPED)
	$(PIP) atheris==3.0.0
	$(RUN) -m tools.fuzz --seconds $(SECONDS)

## peers: make every golden and family again that a package can give, in an environment that has the extra peers
PEERS ?= .venv-peers
peers:
	$(PEERS)/bin/python tools/goldens.py --check
	$(PEERS)/bin/python tools/families.py --check

## gallery: the pictures of docs/gallery.md are what posenc draws; make gallery DRAW=1 draws them
gallery: $(DEVELOPED)
	$(RUN) -m tools.pages --gallery $(if $(DRAW),,--check)

## format: rewrite what lint and docs would complain about, where that is mechanical
format: $(DEVELOPED)
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .
	$(RUN) tools/pages.py
	$(RUN) tools/man.py

## lock: pin, in constraints.txt, the newest of everything that development installs
# With torch, whose own requirements bound others; torch itself is chosen by TORCH alone.
lock:
	rm -rf .venv-lock
	"$(PYTHON)" -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --upgrade pip -e ".[dev,mutants,docs,browser,frameworks]" "torch==$(or $(TORCH),2.13.0)"
	.venv-lock/bin/python -m pip freeze --exclude-editable --exclude torch > constraints.txt

clean:
	rm -rf .venv .venv-* dist build site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage .coverage.*

KERNEL := hatch_build.py $(addprefix posenc_cli/backends/,waves.c waves_kernel.h native.py)

BUILT_FROM := pyproject.toml constraints.txt $(KERNEL) $(VENV)/.python

$(VENV)/.python:
	@echo "== Make an environment of $(PYTHON) in $(VENV)"
	@rm -rf $(VENV)
	@"$(PYTHON)" -m venv $(VENV) $(if $(UV),|| { rm -rf $(VENV) && "$(UV)" venv --quiet --seed --python "$(PYTHON)" $(VENV); })
	@echo "$(PYTHON)" > $@

$(VENV)/.installed: $(BUILT_FROM)
	@echo "== Install posenc into $(VENV) by $(if $(UV),uv,pip): it compiles its kernel, and fetches NumPy, Matplotlib and smaller packages"
	@$(call install,-e .)
	@touch $@

$(DEVELOPED): $(BUILT_FROM)
	@echo "== Install posenc and what its tests need into $(VENV) by $(if $(UV),uv,pip): $(VERSIONS) versions"
	@$(call install,-e ".[$(EXTRAS)]" $(if $(TORCH),torch==$(TORCH)))
	@touch $@ $(VENV)/.installed
