import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { expect, it } from "vitest";
import { ExecAccess } from "./exec-access.ts";

const key = { namespace: "default", name: "main" };
const right = { verb: "create", subresource: "exec" } as const;
const allowed: unknown[] = [];
const identities = {
  authenticate: (token: string) => {
    if (token === "broken") return Promise.reject(new Error("connection refused"));
    return Promise.resolve(token === "alice" || token === "bob" ? { username: token } : undefined);
  },
  isAllowed: (user: { readonly username: string }, attributes: unknown) => {
    allowed.push(attributes);
    return Promise.resolve(user.username === "alice");
  },
};

function requestOf(authorization: string | undefined, { tls }: { readonly tls: boolean }): IncomingMessage {
  const request = new IncomingMessage(tls ? new TLSSocket(new Socket()) : new Socket());
  if (authorization !== undefined) request.headers.authorization = authorization;
  return request;
}

it("asks the cluster for permission to create tasks/exec of the task", async () => {
  const access = new ExecAccess({ identities, localToken: undefined });
  expect(await access.authorize(requestOf("Bearer alice", { tls: true }), key, right)).toEqual({ user: "alice" });
  const attributes = { group: "robot.k8s4r.io", version: "v1alpha1", resource: "tasks", subresource: "exec", verb: "create" };
  expect(allowed).toEqual([{ resourceAttributes: { ...attributes, ...key } }]);
});

it.each([
  ["without a token", undefined, true, 401, /required/],
  ["with another scheme", "Basic alice", true, 401, /required/],
  ["with an unknown token", "Bearer mallory", true, 401, /not valid for this cluster/],
  ["with a token of a user without the permission", "Bearer bob", true, 403, /User "bob" cannot create resource "tasks\/exec"/],
  ["with a token of the cluster but without TLS", "Bearer alice", false, 401, /TLS is required/],
  ["while the API server does not respond", "Bearer broken", true, 503, /connection refused/],
])("rejects a caller %s", async (_, authorization, tls, status, message) => {
  const access = new ExecAccess({ identities, localToken: undefined });
  const result = await access.authorize(requestOf(authorization, { tls }), key, right);
  expect(result).toMatchObject({ status, message: expect.stringMatching(message) });
});

it("accepts only its own token on loopback", async () => {
  const access = new ExecAccess({ identities, localToken: "secret" });
  expect(await access.authorize(requestOf("Bearer secret", { tls: false }), key, right)).toMatchObject({
    user: expect.any(String),
  });
  expect(await access.authorize(requestOf("Bearer alice", { tls: false }), key, right)).toMatchObject({ status: 401 });
});
