import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { afterAll, beforeAll, expect, it } from "vitest";
import { identitySecret } from "../../api/names.ts";
import { Secret } from "../../api/secret.ts";
import { ensureRobotAuthority } from "./authority-store.ts";
import type { RobotAuthority } from "./robot-authority.ts";
import { messageValidityMs, openMessage, sealMessage } from "../signed-message.ts";
import { keysOf, openTrustBundle, type TrustBundle } from "./trust-bundle.ts";

const t0 = Date.UTC(2026, 0, 1);
const topic = "k8s4r/robots/one/tasks/dispatch";
let environment: TestEnvironment;
let client: Client;

beforeAll(async () => {
  environment = await startTestEnvironment();
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
});

afterAll(() => environment.stop());

const load = (now: number): Promise<RobotAuthority> =>
  ensureRobotAuthority({ client, namespace: "default", now, fieldManager: "test" });

function trustOf({ trust, trusted }: RobotAuthority): TrustBundle {
  const bundle = openTrustBundle(
    trust,
    trusted.map(({ x509 }) => x509),
  );
  if (bundle === undefined) throw new Error("the bundle is not valid");
  return bundle;
}

it("keeps its keys until they are due, and then trusts the previous signing key alongside the new one", async () => {
  const first = await load(t0);
  const same = await load(first.rotateAt - 1);
  expect([same.signingKey.id, same.pin]).toEqual([first.signingKey.id, first.pin]);

  const second = await load(first.rotateAt);
  expect(second.signingKey.id).not.toBe(first.signingKey.id);
  expect(second.pin).toBe(first.pin);
  expect(trustOf(second).version).toBeGreaterThan(trustOf(first).version);
  const now = first.rotateAt;
  const open = (signer: RobotAuthority, reader: RobotAuthority) => {
    const payload = Buffer.from(sealMessage(topic, { action: "delete" }, signer.signingKey, now));
    return openMessage(topic, payload, { keys: keysOf(trustOf(reader)), now }).kind;
  };
  // A message that was signed just before the replacement is still valid after it.
  expect(open(first, second)).toBe("valid");
  expect(open(second, second)).toBe("valid");
  // A robot that has not got the new key yet recognizes that it lacks one.
  expect(open(second, first)).toBe("unknown-key");

  const third = await load(second.rotateAt);
  expect(open(first, third)).toBe("unknown-key");
  expect(open(second, third)).toBe("valid");
});

it("opens exactly what was signed, for its topic and until it expires", async () => {
  const authority = await load(t0);
  const { signingKey } = authority;
  const keys = keysOf(trustOf(authority));
  // Content that looks like a signature does not end the message early.
  const message = { action: "create", task: { name: ',"signature":{"key":"k1","notAfter":1,"value":"x"}}' } };
  const sealed = sealMessage(topic, message, signingKey, t0);
  const open = (text: string, of = topic, now = t0) => openMessage(of, Buffer.from(text), { keys, now });
  expect(open(sealed)).toEqual({ kind: "valid", body: JSON.stringify(message) });
  expect(JSON.parse(sealed)).toMatchObject(message);
  for (const [text, of, now] of [
    [sealed, "k8s4r/robots/two/tasks/dispatch", t0],
    [sealed, topic, t0 + messageValidityMs + 1],
    [sealed.replace("create", "delete"), topic, t0],
    [sealed.replace(/"notAfter":\d+/, `"notAfter":${t0 * 2}`), topic, t0 + messageValidityMs + 1],
    [JSON.stringify(message), topic, t0],
    [`${sealed} `, topic, t0],
    ["", topic, t0],
  ] as const) {
    expect(open(text, of, now).kind).toBe("invalid");
  }
});

it("does not quote the content of a damaged Secret", async () => {
  await load(t0);
  const data = { "authority.json": Buffer.from("PRIVATE KEY").toString("base64") };
  const key = { namespace: "default", name: identitySecret };
  await client.patch(Secret, key, { type: "merge", body: { data } });
  await expect(load(t0)).rejects.toThrow(
    /^Secret robot-identity: data\[authority.json\] is damaged: restore it from a backup$/,
  );
});
