import { describe, expect, it } from "vitest";
import { requestInfo } from "./request-info.ts";

const info = (method: string, path: string, query: Record<string, string> = {}): unknown =>
  requestInfo({ method, path, query });

describe("requestInfo", () => {
  it("reads objects, collections and subresources of core and other groups", () => {
    expect(info("GET", "/api/v1/namespaces/a/pods/b/log")).toMatchObject({
      verb: "get",
      group: "",
      version: "v1",
      namespace: "a",
      resource: "pods",
      name: "b",
      subresource: "log",
    });
    expect(info("GET", "/apis/apps/v1/deployments", { watch: "1" })).toMatchObject({
      verb: "watch",
      group: "apps",
      resource: "deployments",
      namespace: "",
      name: "",
    });
    expect(info("DELETE", "/apis/apps/v1/namespaces/a/deployments")).toMatchObject({ verb: "deletecollection" });
    expect(info("POST", "/api/v1/nodes/n/proxy/some/path")).toMatchObject({
      resource: "nodes",
      subresource: "proxy",
      rest: "some/path",
    });
  });

  it("distinguishes a Namespace from the objects in it", () => {
    expect(info("GET", "/api/v1/namespaces/a")).toMatchObject({ resource: "namespaces", name: "a", namespace: "a" });
    expect(info("PUT", "/api/v1/namespaces/a/finalize")).toMatchObject({
      resource: "namespaces",
      name: "a",
      subresource: "finalize",
    });
    expect(info("GET", "/api/v1/namespaces/a/pods")).toMatchObject({ resource: "pods", namespace: "a", verb: "list" });
    expect(info("GET", "/api/v1/namespaces")).toMatchObject({ resource: "namespaces", namespace: "", verb: "list" });
  });

  it("reads the name of a list from its field selector, for RBAC by resourceNames", () => {
    expect(info("GET", "/api/v1/namespaces/a/pods", { fieldSelector: "status.phase=Running,metadata.name=p" })).toMatchObject({
      verb: "list",
      name: "p",
      isNamed: false,
    });
  });

  it("parses legacy watch paths and percent-encoding", () => {
    expect(info("GET", "/api/v1/watch/namespaces/a/pods")).toMatchObject({ verb: "watch", resource: "pods", namespace: "a" });
    expect(info("GET", "/api/v1/namespaces/a/configmaps/b%2Fc")).toMatchObject({ name: "b/c" });
    expect(() => info("GET", "/api/v1/namespaces/%")).toThrow(/percent-encoded/);
  });

  it("treats everything else as a non-resource request", () => {
    for (const path of ["/", "/healthz", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/openapi/v3"]) {
      expect(info("GET", path)).toEqual({ isResource: false, verb: "get", path });
    }
  });
});
