#!/bin/sh
# Draws the pictures of the explanations. Needs Graphviz.
set -eu
cd "$(dirname "$0")"
for file in *.dot; do
    dot -Tsvg "$file" -o "${file%.dot}.svg"
done
