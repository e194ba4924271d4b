import { expect, it } from "vitest";
import type { RemoteApi } from "./api-service.ts";
import { readRemoteDocuments, type RemoteDocuments } from "./remote-documents.ts";

const api: RemoteApi = {
  name: "v1.example.com",
  group: "example.com",
  version: "v1",
  groupPriority: 1,
  versionPriority: 1,
  service: { namespace: "default", name: "s", port: 443 },
  authorities: undefined,
  skipsVerification: false,
  isAvailable: true,
};

it.each([
  ["/openapi/v3/apis/example.com/v1?hash=1", true],
  ["/api/v1/secrets", false],
  ["https://other/openapi/v3/x", false],
  ["/openapi/v3/a b", false],
  ["/openapi/v3/a\r\nx: y", false],
])("reads the OpenAPI document only below /openapi/v3/: %j", async (url, isRead) => {
  const index = { paths: { "apis/example.com/v1": { serverRelativeURL: url } } };
  const documents = await readRemoteDocuments(
    api,
    async (path) => {
      const body = Buffer.from(JSON.stringify(path === "/openapi/v3" ? index : {}));
      return { status: 200, contentType: "application/json", location: "", body };
    },
    undefined,
  );
  expect(documents.openApiV3).toBe(isRead ? url : undefined);
});

it("rejects if the group version is not served, so that its kinds are not forgotten", async () => {
  const notFound = { status: 404, contentType: "text/plain", location: "", body: Buffer.from("404 page not found\n") };
  await expect(readRemoteDocuments(api, async () => notFound, undefined)).rejects.toThrow(
    "discovery of /apis/example.com/v1 failed with HTTP status 404",
  );
});

it("reads OpenAPI documents again if they were missing", async () => {
  let isReady = false;
  const read = (known?: RemoteDocuments): Promise<RemoteDocuments> =>
    readRemoteDocuments(
      api,
      async (path) => {
        const isMissing = !isReady && path.startsWith("/openapi/");
        const index = { paths: { "apis/example.com/v1": { serverRelativeURL: "/openapi/v3/x" } } };
        const body = Buffer.from(JSON.stringify(path === "/openapi/v3" ? index : {}));
        return { status: isMissing ? 503 : 200, contentType: "application/json", location: "", body };
      },
      known,
    );
  const first = await read();
  expect(first).toMatchObject({ openApiV3: undefined, openApiV2: undefined });
  expect(await read(first)).toBe(first);
  isReady = true;
  const second = await read(first);
  expect(second).toMatchObject({ openApiV3: "/openapi/v3/x", openApiV2: { paths: {} } });
  expect(await read(second)).toBe(second);
});
