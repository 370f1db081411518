# Every target makes what it needs first: .venv inside the checkout, the packages and a Java runtime.
# Pass options to pytest with ARGS, for example: make test ARGS="-k sketch -x"

RUN = . scripts/env.sh &&

PURE = tests/core tests/federation tests/test_classes.py tests/test_dead_ends.py tests/test_deploy.py tests/test_driver.py tests/test_extras.py tests/test_journal.py tests/test_log.py tests/test_moved.py tests/test_objects.py tests/test_plan.py tests/test_report.py tests/test_retention.py tests/test_store.py tests/test_surface.py

.PHONY: help setup maven demo kafka federation test check pure kills matrix tables lint format tour docs results bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv with all packages; find Java 17+ or install it
	@sh scripts/setup.sh

maven: setup # brings Kafka; without it tests with a broker are skipped
	@sh scripts/maven.sh

demo: setup ## an overloaded Spark stream, unguarded and guarded, and a report: two minutes after the set-up
	@$(RUN) penstock demo

kafka: maven ## the demo's stream from Kafka to Kafka, with a broker of its own, and its account
	@$(RUN) python examples/kafka/run.py

federation: setup ## three sites that share queries, over a folder, and the account over all of them
	@$(RUN) python examples/federation/run.py

test: maven ## every check: lint, types, layers, docs, examples, unit and Spark tests
	@$(RUN) python -m pytest $(ARGS)

check: setup ## lint, types, layers and the quick tests without Spark, side by side: three minutes
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint pure

pure: setup # the tests without Spark, but for the simulator's, which take minutes
	@$(RUN) python -m pytest -q $(PURE) --ignore-glob='*spark*' $(ARGS)

kills: setup ## kill the driver of a guarded query 30 times and hold its sink against the plans, also with a checkpoint in a bucket: fifteen minutes
	@$(RUN) PENSTOCK_KILLS=30 python -m pytest tests/spark/test_exactly_once.py

matrix: maven ## the guard's tests on Spark 4.0 to 4.3, and the table of docs/versions.md: half an hour
	@$(RUN) python scripts/matrix.py $(ARGS)

tables: maven ## a guard between real tables: Iceberg on Spark 4.1, Delta on 4.2, in environments of their own
	@$(RUN) python scripts/tables.py $(ARGS)

lint: setup ## the quick checks alone: style, types, layers
	@$(RUN) ruff check && ruff format --check && mypy && lint-imports --no-logo

format: setup ## mend style in place
	@$(RUN) ruff check --fix && ruff format

tour: setup ## run examples/tour.ipynb again and keep its outputs
	@$(RUN) python scripts/run_notebook.py examples/tour.ipynb

docs: setup ## build the documentation into site/
	@$(RUN) mkdocs build --strict

results: setup ## rerun the papers' experiments for the documentation
	@$(RUN) penstock reproduce las --runs 1000 --out docs/papers/las
	@$(RUN) penstock reproduce aurora --runs 100 --out docs/papers/aurora
	@$(RUN) penstock reproduce osg --runs 100 --out docs/papers/osg
	@$(RUN) penstock reproduce themis --runs 10 --out docs/papers/themis
	@$(RUN) penstock reproduce plus --runs 40 --out docs/papers/plus

bench: setup ## what the guard costs and what it holds: more than an hour
	@$(RUN) penstock bench gate && penstock bench idle && penstock bench grains && penstock bench roadmap && penstock bench latency && penstock bench grouping

clean: ## remove .venv and everything else that make made
	@rm -rf .venv build dist site out spark-warehouse metastore_db derby.log .*_cache .hypothesis
	@find src tests examples scripts -name __pycache__ -prune -exec rm -rf {} +
