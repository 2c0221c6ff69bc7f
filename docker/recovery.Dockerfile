# The tool itself, for hosts without Python: docker/recovery builds it and calls it. From the checkout, by hand:
#   docker build -f docker/recovery.Dockerfile -t recovery-tester/recovery .
# The base has a Python from 3.11 on, with its venv module.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}
# Servers that are unpacked from an archive are asked in here for their version. These are the libraries of all their
# ages, as in the base of the servers' own images; empty where the base has them.
ARG PACKAGES="libaio1 libnuma1 libncurses5 libncurses6 libtinfo5 libtinfo6 libatomic1 libssl3 libcrypt1 libstdc++6 \
libgcc-s1 liblz4-1 libzstd1 libsnappy1v5 libsystemd0 libpam0g libwrap0 liburing2 libtirpc3 libeatmydata1"
RUN if [ -n "${PACKAGES}" ]; then \
        apt-get update -q \
     && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends ${PACKAGES} \
     && rm -rf /var/lib/apt/lists/*; \
    fi
COPY . /source/
# A folder wheels/ in the context takes the place of the package index, where a build reaches none.
RUN set -eu; cd /source; \
    python3 -m venv /opt/recovery; \
    from=; if [ -d wheels ]; then from="--no-index --find-links=wheels"; fi; \
    install="/opt/recovery/bin/python -m pip install -q --disable-pip-version-check --no-cache-dir $from"; \
    $install --require-hashes -r requirements/run.lock; \
    $install --no-build-isolation --no-deps .; \
    rm -rf /source
ENV LANG=C.UTF-8
ENTRYPOINT ["/opt/recovery/bin/recovery"]
CMD ["--help"]
# What the base may say of itself is not true of this one.
LABEL recovery-tester.made=tool recovery-tester.name="" recovery-tester.owner="" recovery-tester.source="" \
      org.opencontainers.image.title="mysql-recovery-tester" \
      org.opencontainers.image.description="How long does this MySQL server take to come back after a crash?" \
      org.opencontainers.image.licenses="Apache-2.0"
