# Every command of the project. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help up test check fix gen lock bench clean runtime dev

PYTHON ?= python3
BIN := .venv/bin
NAME ?=
ARGS ?=

help: ## show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: runtime ## set everything up and run AgentOS with a demo tenant (ARGS="--port 9000" passes options)
	@exec $(BIN)/agentos up $(ARGS)

test: dev ## set everything up and run the tests (ARGS="-k vault" passes options)
	@$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

check: dev ## format, lint, types, import rules, generated files, also the dashboard's
	@$(BIN)/ruff format --check src tests bench tools
	@$(BIN)/ruff check src tests bench tools
	@$(BIN)/mypy src/agentos tests bench
	@$(BIN)/lint-imports
	@$(BIN)/python tools/gen.py --check
	@$(BIN)/python tools/dashboard.py npm run types

fix: dev ## format and repair what can be repaired
	@$(BIN)/ruff check --fix src tests bench tools
	@$(BIN)/ruff format src tests bench tools

gen: dev ## write generated files anew (openapi.json and the dashboard's types)
	@$(BIN)/python tools/gen.py

lock: dev ## compile requirements/*.txt anew from pyproject.toml
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --extra build pyproject.toml -o requirements/runtime.txt
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --extra build --extra dev pyproject.toml -o requirements/dev.txt
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --group node -o requirements/node.txt

bench: dev ## run all benchmarks, or one (NAME=cli)
	@$(BIN)/python -m bench $(NAME)

clean: ## remove the environment and all caches; your data stays
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache src/agentos/_ui web/node_modules

runtime:
	@$(PYTHON) tools/setup_env.py runtime
	@$(PYTHON) tools/setup_sandbox.py
	@$(BIN)/python tools/dashboard.py build

dev:
	@$(PYTHON) tools/setup_env.py dev
	@$(PYTHON) tools/setup_sandbox.py
	@$(PYTHON) tools/setup_docker.py
	@$(PYTHON) tools/setup_browser.py
	@$(BIN)/python tools/dashboard.py build
