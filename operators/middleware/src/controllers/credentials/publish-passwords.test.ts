import { statusError } from "@keelson/api-machinery";
import type { SecretObject } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { ReconcileContext } from "@keelson/controller";
import { expect, it } from "vitest";
import { App } from "../../api/app.ts";
import { publishAll } from "./publish-passwords.ts";

const runtime = { name: "redis", version: "7.2" };
const app: App = {
  apiVersion: "middleware.io/v1alpha1",
  kind: App.kind,
  metadata: { name: "cache", namespace: "default" },
  spec: { plugin: runtime, runtime },
};
const secretOf = (name: string): SecretObject => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name, namespace: "default", resourceVersion: "1" },
  data: { password: "b2xk", nextPassword: "bmV3" },
});

it("publishes the passwords of other users if a Secret cannot be written, and reports that afterwards", async () => {
  const written: string[] = [];
  const patch = (_: unknown, { name }: { readonly name: string }): Promise<SecretObject> => {
    if (name === "a") return Promise.reject(statusError("Forbidden", "a: denied by a policy"));
    written.push(name);
    return Promise.resolve(secretOf(name));
  };
  const events: string[] = [];
  const context = {
    client: { patch },
    signal: new AbortController().signal,
    clock: createVirtualClock(),
    events: { event: (_: unknown, { note }: { readonly note: string }) => void events.push(note) },
  } as unknown as ReconcileContext;
  const names = ["a", "b", "c"];
  const secrets = new Map(names.map((name) => [name, secretOf(name)]));
  const publish = publishAll(
    app,
    names.map((user) => ({ user })),
    secrets,
    context,
  );
  await expect(publish).rejects.toThrow("denied by a policy");
  expect(written).toEqual(["b", "c"]);
  expect(events).toEqual([expect.stringContaining("user b: "), expect.stringContaining("user c: ")]);
});
