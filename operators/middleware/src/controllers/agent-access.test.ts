import { type DeepReadonly, type KubernetesObject, statusError } from "@keelson/api-machinery";
import { Secret } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { describe, expect, it } from "vitest";
import { App } from "../api/app.ts";
import { findAgentAccess } from "./agent-access.ts";

/** A client of a cluster with these objects, by kind. */
function clientOf(objects: Readonly<Record<string, object>>): Pick<Client, "get"> {
  const get = ({ kind }: { readonly kind: string }): Promise<DeepReadonly<KubernetesObject>> => {
    const found = objects[kind];
    if (found === undefined) return Promise.reject(statusError("NotFound", `${kind} not found`));
    return Promise.resolve(found as DeepReadonly<KubernetesObject>);
  };
  return { get: get as Client["get"] };
}

const secret = { data: { agentToken: Buffer.from("t1").toString("base64") } };
const app = { metadata: { name: "cache" } };
const find = (objects: Readonly<Record<string, object>>): ReturnType<typeof findAgentAccess> =>
  findAgentAccess(clientOf(objects), "default", "cache");

describe("the token of an App's agents", () => {
  it("is read from the Secret", async () => {
    expect(await find({ [Secret.kind]: secret, [App.kind]: app })).toEqual({ token: "t1" });
  });

  it.each([
    ["has been deleted", {}],
    ["is being deleted", { [App.kind]: { metadata: { name: "cache", deletionTimestamp: "2026-01-01T00:00:00Z" } } }],
  ])("is undefined if the Secret is missing and the App %s", async (_, objects) => {
    expect(await find(objects)).toBeUndefined();
  });

  it("is an error if the Secret of an App that stays is missing", async () => {
    await expect(find({ [App.kind]: app })).rejects.toThrow("Secret not found");
  });
});
