# The image of the operators, for hosts with Docker. `npm run image` writes the same files without it.
FROM node:20.20.2-bookworm-slim AS build
WORKDIR /src
COPY . .
RUN node scripts/image.mjs --only keelson --folder /image

FROM scratch
COPY --from=build /image /
USER 65532:65532
ENV PATH=/usr/local/bin:/usr/bin:/bin NODE_ENV=production HOME=/tmp
ENTRYPOINT ["keelson"]
