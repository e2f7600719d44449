# The image of a team's container: what agents work with, and the agent CLIs themselves.
#
#   docker build -t agentos-agent -f deploy/agent.Dockerfile deploy
#
# The sidecar is not in it: the worker shows it to the container, so that both are of one version.
# It needs this image's Python to be the worker's (3.11: Debian 12).

# The CLIs are single programs in packages of npm; nothing of Node is needed to run them.
FROM node:22-bookworm-slim AS agents
ARG CLAUDE_CODE=2.1.325
ARG OPENCODE_AMD64=1.18.33
# The newest that was published for it.
ARG OPENCODE_ARM64=1.18.18
ARG RIPGREP=1.18.0
WORKDIR /opt/agents
RUN machine="$(dpkg --print-architecture)" \
 && case "$machine" in \
      amd64) cpu=x64 opencode="$OPENCODE_AMD64" ;; \
      arm64) cpu=arm64 opencode="$OPENCODE_ARM64" ;; \
      *) echo "There are no agent CLIs for $machine." >&2; exit 1 ;; \
    esac \
 && npm install --ignore-scripts --no-audit --no-fund --no-save \
      "@anthropic-ai/claude-code-linux-$cpu@$CLAUDE_CODE" \
      "opencode-linux-$cpu@$opencode" \
      "@vscode/ripgrep-linux-$cpu@$RIPGREP" \
 && chmod -R a=rX,u+w . \
 && for program in "@anthropic-ai/claude-code-linux-$cpu/claude" \
      "opencode-linux-$cpu/bin/opencode" "@vscode/ripgrep-linux-$cpu/bin/rg"; do \
      chmod 755 "node_modules/$program" && "node_modules/$program" --version || exit 1; \
    done

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      ca-certificates curl git jq less make openssh-client patch procps python3 python3-venv \
      ripgrep unzip xz-utils zip \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
COPY --from=agents /opt/agents /opt/agents
# The worker runs it as the tenant's own account; this one is for those who try it by hand.
RUN useradd --uid 1000 --home-dir /workspace --create-home --shell /bin/bash agent
USER agent
WORKDIR /workspace
ENV LANG=C.UTF-8
CMD ["/bin/bash"]
