import { expect, test } from "vitest";
import { parseKubeletPath } from "./kubelet-path.ts";

test.each([
  ["/healthz", { subresource: "healthz", podUrl: undefined }],
  ["/metrics/resource", { subresource: "metrics", podUrl: undefined }],
  ["/metrics", { subresource: "metrics", podUrl: undefined }],
  [
    "/containerLogs/a/p/main?follow=true&tailLines=5",
    { subresource: "proxy", podUrl: "/api/v1/namespaces/a/pods/p/log?container=main&follow=true&tailLines=5" },
  ],
  [
    "/exec/a/p/main?input=1&output=1&error=1&tty=1&command=sh&command=-c",
    {
      subresource: "proxy",
      podUrl: "/api/v1/namespaces/a/pods/p/exec?container=main&stdin=1&stdout=1&stderr=1&tty=1&command=sh&command=-c",
    },
  ],
  [
    "/attach/a/p/some-uid/main?output=1",
    { subresource: "proxy", podUrl: "/api/v1/namespaces/a/pods/p/attach?container=main&stdout=1" },
  ],
  ["/portForward/a/p", { subresource: "proxy", podUrl: "/api/v1/namespaces/a/pods/p/portforward?" }],
  ["/portForward/a/p/some-uid?port=80", { subresource: "proxy", podUrl: "/api/v1/namespaces/a/pods/p/portforward?port=80" }],
])("parses %s", (url, request) => {
  expect(parseKubeletPath(url)).toEqual(request);
});

test("the container in the path cannot be replaced by a parameter", () => {
  const { podUrl } = parseKubeletPath("/exec/a/p/main?container=other&command=id");
  expect(podUrl).toBe("/api/v1/namespaces/a/pods/p/exec?container=main&command=id");
});

test.each([
  "/",
  "//",
  "//host/exec/a/p/main",
  "http://[",
  "/pods",
  "/exec/a/p",
  "/containerLogs/a/p/u/main",
  "/exec/a/p/u/main/x",
  "/constructor/a/p/main",
  "/run/a/p/main",
])("%s requires permission to use the whole kubelet API, and is not found", (url) => {
  expect(parseKubeletPath(url)).toEqual({ subresource: "proxy", podUrl: undefined });
});
