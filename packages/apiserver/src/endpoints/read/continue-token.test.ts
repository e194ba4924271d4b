import { describe, expect, it } from "vitest";
import { decodeContinue, encodeContinue } from "./continue-token.ts";

const prefix = "/configmaps/default/";
const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");
const v = "meta.k8s.io/v1";

describe("a continue token", () => {
  it("decodes to the position that it encodes", () => {
    const position = { revision: 7, startAfter: `${prefix}a`, remaining: 3 };
    expect(decodeContinue(encodeContinue(position, prefix), prefix)).toEqual(position);
  });

  it("with a negative revision continues with the newest state", () => {
    expect(decodeContinue(encode({ v, rv: -5, start: "a" }), prefix)).toEqual({ revision: -1, startAfter: `${prefix}a` });
  });

  it.each([
    [[], "json: cannot unmarshal array into Go value of type storage.continueToken"],
    [1, "json: cannot unmarshal number into Go value of type storage.continueToken"],
    [true, "json: cannot unmarshal bool into Go value of type storage.continueToken"],
    [null, "server does not recognize this encoded version "],
    [{ v: "x", rv: 1, start: "a" }, "server does not recognize this encoded version x"],
    [{ v, rv: 0, start: "a" }, "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"],
    [{ v, rv: 1 }, "encoded start key empty (version meta.k8s.io/v1)"],
    [{ v, rv: 1, start: "../a" }, "../a"],
    [{ v, rv: 1, start: "a/./b" }, "a/./b"],
    [{ v, rv: 1, start: "a/" }, "a/"],
  ])("is rejected with the message of kube-apiserver: %j", (value, why) => {
    expect(() => decodeContinue(encode(value), prefix)).toThrow(`invalid continue token: continue key is not valid: ${why}`);
  });
});
