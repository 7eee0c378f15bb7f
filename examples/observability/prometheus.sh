#!/usr/bin/env bash
# Starts Debian's Prometheus with the alert rules of this directory. It scrapes the server every second.
#
#     prometheus.sh [TARGET [ADDRESS [DATA]]]
#
# TARGET is where the server serves /metrics, ADDRESS where Prometheus listens, and DATA a directory for its data.
set -euo pipefail
directory=$(cd "$(dirname "$0")" && pwd)
target=${1:-localhost:9464} address=${2:-localhost:9090} data=${3:-$(mktemp -d)}
command -v prometheus >/dev/null || { echo "prometheus is missing (on Debian: apt-get install prometheus)" >&2; exit 1; }
cat >"$data/prometheus.yml" <<END
global: { scrape_interval: 1s, evaluation_interval: 1s }
rule_files: ["$directory/alerts.yml"]
scrape_configs:
  - job_name: mcp
    static_configs: [{ targets: ["$target"] }]
END
exec prometheus --config.file="$data/prometheus.yml" --storage.tsdb.path="$data/data" --web.listen-address="$address" --log.level=warn
