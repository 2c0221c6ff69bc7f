# One server, as its tarball unpacks, on the base that all of them share: versions differ by the server alone.
# Nothing is fetched here. The context is put together by recovery/builds/image_build.py.
ARG BASE=recovery-tester/base:bookworm
FROM ${BASE}
ARG NAME
LABEL recovery-tester.made=part recovery-tester.name=${NAME}
# Folders of libraries that come with the server, or that the base lacks; empty for most.
ARG LIBRARIES
ENV LD_LIBRARY_PATH=${LIBRARIES}
COPY opt/ /opt/
