import { describe, expect, it } from "vitest";
import { acceptedRepresentations, documentFormat, isRouted, notRouted } from "./negotiation.ts";

describe("an Accept header", () => {
  it.each([
    [undefined, true],
    ["application/json;as=Table;g=meta.k8s.io;v=v1", true],
    ["text/html, */*;q=0.1", true],
    ["application/*", false],
    ["application/JSON", false],
  ])("%s is accepted by a route for built-in kinds: %s", (accept, expected) => {
    expect(isRouted(accept)).toBe(expected);
  });

  it("that no route accepts is answered with the available types, for a collection also those of watches", () => {
    const types = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    expect(notRouted().message).toBe(`406: Not Acceptable\n\nAvailable representations: ${types}`);
    const watches = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    expect(notRouted(undefined, true).message).toBe(`406: Not Acceptable\n\nAvailable representations: ${types}, ${watches}`);
  });
});

describe("the format of a document", () => {
  const formatOf = (path: string, accept: string): string => {
    try {
      return documentFormat(path, accept, acceptedRepresentations(accept), false);
    } catch (error) {
      return error instanceof Error ? error.message.slice(0, 15) : "";
    }
  };

  it.each([
    ["/", "text/plain", "json"],
    ["/openapi/v3", "text/plain", "json"],
    ["/apis/apps", "application/*", "json"],
    ["/apis/apps", "application/json;as=Table;g=meta.k8s.io;v=v1", "only the followi"],
    ["/apis/apps/v1", "application/yaml", "yaml"],
    ["/apis/apps/v1", "application/*", "406: Not Accept"],
    ["/version", "application/yaml", "406: Not Accept"],
  ])("%s for %s is %s", (path, accept, expected) => {
    expect(formatOf(path, accept)).toBe(expected.slice(0, 15));
  });
});
