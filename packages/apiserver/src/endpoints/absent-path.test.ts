import { describe, expect, it } from "vitest";
import { builtinKinds } from "../registry/builtin-kinds.ts";
import { noReviews } from "../registry/testing/crd-samples.ts";
import { absentPath } from "./absent-path.ts";

const resources = { list: () => builtinKinds({ clock: { now: () => 0 }, reviews: noReviews }) };

describe("the response for an absent path", () => {
  it.each(["/api/v2", "/api/v1/bogus", "/apis/apps/v9", "/apis/apps/v1/bogus", "/version/x"])("is a Status: %s", (path) => {
    expect(absentPath(path, resources)).toMatchObject({ status: { code: 404, reason: "NotFound" } });
    expect(absentPath(path, resources).text).toBeUndefined();
  });

  it.each(["/apis/bogus", "/apis/example.com/v1/widgets", "/logs", "/healthz/", "/apix", "//api/v1"])("is text: %s", (path) => {
    expect(absentPath(path, resources)).toMatchObject({ status: { code: 404 }, text: "404 page not found\n" });
  });
});
