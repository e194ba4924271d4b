import { expect, it } from "vitest";
import type { RemoteApi } from "./api-service.ts";
import { readRemoteDocuments } from "./remote-documents.ts";

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
