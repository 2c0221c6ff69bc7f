# A suite of Debian with some of its packages, where the suite's image could be pulled. apt checks the signatures.
ARG FROM
FROM ${FROM}
ARG NAME
LABEL recovery-tester.made=part recovery-tester.name=${NAME}
ARG PACKAGES
RUN apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends ${PACKAGES} \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb
