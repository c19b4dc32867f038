# A static binary in an empty image. Certificates are mounted, never copied.
#
#   make image
#
# tests/image follows these steps without a container engine.

# The image in which the binary is built. A tag may name another image tomorrow; a digest (name:tag@sha256:…) names one for good.
ARG BASE=docker.io/library/rust:1.95-alpine

FROM ${BASE} AS build
RUN apk add --no-cache musl-dev make gcc
# cargo-auditable stores the list of dependencies in the binary, cargo-cyclonedx writes the SBOM.
RUN cargo install --locked cargo-auditable@0.7.7 cargo-cyclonedx@0.5.9
WORKDIR /src
# Dependencies have a layer of their own, which changes with these files only. Cargo wants every target to be there.
COPY Cargo.toml Cargo.lock ./
COPY crates/apiserver/Cargo.toml crates/apiserver/
COPY crates/engine/Cargo.toml crates/engine/
COPY crates/extension/Cargo.toml crates/extension/
COPY crates/golang/Cargo.toml crates/golang/
COPY crates/machines/Cargo.toml crates/machines/
COPY crates/model/Cargo.toml crates/model/
COPY crates/schema/Cargo.toml crates/schema/
COPY crates/server/Cargo.toml crates/server/
COPY crates/simulation/Cargo.toml crates/simulation/
COPY crates/testing/Cargo.toml crates/testing/
COPY crates/tls/Cargo.toml crates/tls/
RUN sed -n 's/^path = "\(.*\)"$/\1/p' Cargo.toml | while read -r path; do \
      mkdir -p "$(dirname "$path")" && echo 'fn main() {}' >"$path" || exit 1; \
    done \
 && for crate in crates/*; do mkdir "$crate/src" && touch "$crate/src/lib.rs" || exit 1; done \
 && cargo auditable build --locked --profile dist
# The SBOM follows from the same files. With this variable it has no serial number and a fixed time: same files, same bytes.
RUN SOURCE_DATE_EPOCH=0 cargo cyclonedx --format json --spec-version 1.5
COPY src src
COPY crates crates
# The program explains rules.
COPY docs/rules docs/rules
# Newer than what was built of the placeholders.
RUN touch src/main.rs src/lib.rs crates/*/src/lib.rs && cargo auditable build --locked --profile dist

# Not in the image: `make image` writes it to target/sbom.
FROM scratch AS sbom
COPY --from=build /src/topologist.cdx.json /topologist.cdx.json

FROM scratch
COPY --from=build /src/target/dist/topologist /topologist
USER 65532:65532
EXPOSE 9443 9444 8081
ENTRYPOINT ["/topologist"]
CMD ["serve"]
