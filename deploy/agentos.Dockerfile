# AgentOS itself: the gateway (`agentos serve`) and the worker (`agentos worker`).
#
#   docker build -t agentos -f deploy/agentos.Dockerfile .

FROM debian:bookworm-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements/runtime.txt requirements/
RUN python3 -m venv /opt/agentos \
 && /opt/agentos/bin/pip install --no-cache-dir --require-hashes -r requirements/runtime.txt
# Node builds the dashboard here; the image itself has none.
COPY requirements/node.txt requirements/
RUN python3 -m venv /opt/node \
 && /opt/node/bin/pip install --no-cache-dir --require-hashes -r requirements/node.txt
COPY pyproject.toml README.md LICENSE ./
COPY tools tools
COPY web web
COPY src src
RUN PYTHONPATH=src /opt/node/bin/python tools/dashboard.py build
RUN /opt/agentos/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM debian:bookworm-slim
# bubblewrap for agents' commands and for teams of the local runtime; git for their workspaces.
RUN apt-get update \
 && apt-get install -y --no-install-recommends bubblewrap ca-certificates git python3 util-linux \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/agentos /opt/agentos
RUN useradd --system --uid 990 --home-dir /var/lib/agentos --shell /usr/sbin/nologin agentos \
 && install -d -o agentos -g agentos -m 711 /var/lib/agentos
ENV PATH=/opt/agentos/bin:/usr/local/bin:/usr/bin:/bin \
    AGENTOS_DATA_DIR=/var/lib/agentos \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1
USER agentos
EXPOSE 8700
ENTRYPOINT ["agentos"]
CMD ["serve", "--host", "0.0.0.0"]
