# A static binary in an empty image. Certificates are mounted, never copied.
#
#   make image
#
# tests/image follows these steps without a container engine.

FROM docker.io/library/rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev make gcc
WORKDIR /src
# Dependencies have a layer of their own, which changes with these two files only. Cargo wants every target to be there.
COPY Cargo.toml Cargo.lock ./
RUN sed -n 's/^path = "\(.*\)"$/\1/p' Cargo.toml | while read -r path; do \
      mkdir -p "$(dirname "$path")" && echo 'fn main() {}' >"$path" || exit 1; \
    done \
 && cargo build --locked --profile dist
COPY src src
# Newer than what was built of the placeholders.
RUN touch src/main.rs src/lib.rs && cargo build --locked --profile dist

FROM scratch
COPY --from=build /src/target/dist/topologist /topologist
USER 65532:65532
EXPOSE 9443 9444 8081
ENTRYPOINT ["/topologist"]
CMD ["serve"]
