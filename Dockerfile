# A static binary in an empty image. Certificates are mounted, never copied.
#
#   make image

FROM docker.io/library/rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev make gcc
WORKDIR /src
# Dependencies have a layer of their own, which changes with Cargo.lock only.
COPY Cargo.toml Cargo.lock ./
RUN mkdir -p src benches tests/stories tests/cluster \
 && echo 'fn main() {}' | tee src/main.rs benches/admission.rs tests/stories/main.rs tests/cluster/main.rs >/dev/null \
 && touch src/lib.rs \
 && cargo build --locked --release
COPY src src
RUN touch src/main.rs src/lib.rs && cargo build --locked --release

FROM scratch
COPY --from=build /src/target/release/topologist /topologist
USER 65532:65532
EXPOSE 9443 8081
ENTRYPOINT ["/topologist"]
CMD ["serve"]
