import { createHmac, createSign, generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { KubernetesObject } from "@keelson/api-machinery";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { UserInfo } from "../../registry/served-resource.ts";
import { openStore } from "../../storage/open-store.ts";
import { type Store, storageKey } from "../../storage/store.ts";
import { anonymousUser, createAuthenticator } from "../authentication/authenticator.ts";
import { generateSigningKey } from "@keelson/api-machinery/certificates";
import { ensureDefaultRoles } from "../rbac/default-roles.ts";
import { type Authorizer, createRbacAuthorizer } from "../rbac/rbac-authorizer.ts";
import type { Reviews } from "./review-kinds.ts";
import { createAccessReviews } from "./access-reviews.ts";
import { createReviews } from "./reviews.ts";
import {
  createServiceAccountTokens,
  defaultIssuer,
  type ServiceAccountTokens,
} from "../authentication/service-account-tokens.ts";
import { createStaticTokens } from "../authentication/static-tokens.ts";

const clock = createVirtualClock();
const key = await generateSigningKey();
const admin: UserInfo = { username: "root", groups: ["system:masters"] };
const staticTokens = createStaticTokens([["a-long-static-token", admin]]);

let store: Store;
let authorizer: Authorizer;
let tokens: ServiceAccountTokens;
let reviews: Reviews;
let directory: string;
let ids = 0;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "keelson-reviews-"));
  store = await openStore({ dir: directory, clock, sync: false });
  authorizer = createRbacAuthorizer(store);
  const newId = (): string => `id-${ids++}`;
  await ensureDefaultRoles(store, { now: () => clock.now(), newId });
  tokens = createServiceAccountTokens({ privateKey: key, store, now: () => clock.now(), newId });
  reviews = createReviews({ authorizer, tokens, staticTokens: [staticTokens], store, now: () => clock.now() });
  await put("serviceaccounts", "ns", "bot", "uid-bot");
});
afterEach(async () => {
  authorizer.close();
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

async function put(plural: string, namespace: string, name: string, uid: string, more: object = {}): Promise<void> {
  const at = storageKey({ group: "", plural }, namespace, name);
  const object = { apiVersion: "v1", kind: "X", metadata: { name, namespace, uid }, ...more };
  expect((await store.write(at, store.get(at)?.revision ?? 0, object)).ok).toBe(true);
}

async function remove(plural: string, namespace: string, name: string): Promise<void> {
  const at = storageKey({ group: "", plural }, namespace, name);
  expect((await store.write(at, store.get(at)?.revision ?? 0, undefined)).ok).toBe(true);
}

type Kind = keyof Reviews;

async function ask(
  kind: Kind,
  spec: object,
  user: UserInfo = admin,
  namespace = "",
  name = "",
): Promise<Record<string, unknown>> {
  const apiVersion =
    kind.startsWith("token") || kind === "selfSubjectReview" ? "authentication.k8s.io/v1" : "authorization.k8s.io/v1";
  const object = { apiVersion, kind: `${kind[0]?.toUpperCase()}${kind.slice(1)}`, metadata: {}, spec } as KubernetesObject;
  const answer = (await reviews[kind](object, { user, namespace, name })) as KubernetesObject & {
    status: Record<string, unknown>;
  };
  return answer.status;
}

async function tokenOf(spec: object = {}): Promise<string> {
  return String((await ask("tokenRequest", spec, admin, "ns", "bot"))["token"]);
}

const bot: UserInfo = { username: "system:serviceaccount:ns:bot", groups: ["system:authenticated"] };
const deletePods = { resourceAttributes: { namespace: "ns", verb: "delete", resource: "pods" } };

describe("a token of a service account", () => {
  test("is signed for an hour, and authenticates its service account", async () => {
    const status = await ask("tokenRequest", {}, admin, "ns", "bot");
    expect(Date.parse(String(status["expirationTimestamp"])) - clock.now()).toBe(3_600_000);
    const verified = tokens.verify(String(status["token"]));
    expect(verified?.user).toMatchObject({
      username: "system:serviceaccount:ns:bot",
      uid: "uid-bot",
      groups: ["system:serviceaccounts", "system:serviceaccounts:ns"],
    });
    expect(verified?.user.extra?.["authentication.kubernetes.io/credential-id"]?.[0]).toMatch(/^JTI=id-/);
    const payload = JSON.parse(Buffer.from(String(status["token"]).split(".")[1] ?? "", "base64url").toString());
    expect(payload).toMatchObject({
      iss: defaultIssuer,
      sub: "system:serviceaccount:ns:bot",
      aud: [defaultIssuer],
      "kubernetes.io": { namespace: "ns", serviceaccount: { name: "bot", uid: "uid-bot" } },
    });
  });

  test("expires, even if it was accepted before", async () => {
    const token = await tokenOf({ expirationSeconds: 600 });
    await clock.advance(599_000);
    expect(tokens.verify(token)).toBeDefined();
    await clock.advance(1_000);
    expect(tokens.verify(token)).toBeUndefined();
    expect(tokens.verify(token)).toBeUndefined();
  });

  test("becomes invalid with its service account, and is not valid for a new one of that name", async () => {
    const token = await tokenOf();
    expect(tokens.verify(token)).toBeDefined();
    await remove("serviceaccounts", "ns", "bot");
    expect(tokens.verify(token)).toBeUndefined();
    await put("serviceaccounts", "ns", "bot", "uid-new");
    expect(tokens.verify(token)).toBeUndefined();
  });

  test("bound to a Pod becomes invalid with the Pod, and names it", async () => {
    await put("pods", "ns", "p", "uid-p", { spec: { serviceAccountName: "bot" } });
    const token = await tokenOf({ boundObjectRef: { kind: "Pod", apiVersion: "v1", name: "p", uid: "uid-p" } });
    expect(tokens.verify(token)?.user.extra).toMatchObject({
      "authentication.kubernetes.io/pod-name": ["p"],
      "authentication.kubernetes.io/pod-uid": ["uid-p"],
    });
    await remove("pods", "ns", "p");
    expect(tokens.verify(token)).toBeUndefined();
  });

  test("bound to a Pod names the node of the Pod", async () => {
    await put("nodes", "", "n", "uid-n");
    await put("pods", "ns", "p", "uid-p", { spec: { serviceAccountName: "bot", nodeName: "n" } });
    const token = await tokenOf({ boundObjectRef: { kind: "Pod", apiVersion: "v1", name: "p", uid: "uid-p" } });
    expect(tokens.verify(token)?.user.extra).toMatchObject({
      "authentication.kubernetes.io/node-name": ["n"],
      "authentication.kubernetes.io/node-uid": ["uid-n"],
    });
  });

  test("for another audience is not valid for this server", async () => {
    const token = await tokenOf({ audiences: ["vault"] });
    expect(tokens.verify(token)).toBeUndefined();
    expect(tokens.verify(token, ["vault", "x"])?.audiences).toEqual(["vault"]);
  });

  test("is rejected if forged", async () => {
    const token = await tokenOf();
    const [head = "", payload = "", signature = ""] = token.split(".");
    const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");
    const header = JSON.parse(Buffer.from(head, "base64url").toString());
    const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const signed = (data: string): string =>
      createSign("sha256").update(data).sign({ key: privateKey, dsaEncoding: "ieee-p1363" }).toString("base64url");
    const publicPem = publicKey.export({ type: "spki", format: "pem" });
    const none = encode({ ...header, alg: "none" });
    const symmetric = encode({ ...header, alg: "HS256" });
    const flipped = Buffer.from(signature, "base64url");
    flipped[3] = (flipped[3] ?? 0) ^ 1;
    const forged = [
      `${head}.${payload}.${flipped.toString("base64url")}`,
      `${head}.${encode({ ...JSON.parse(Buffer.from(payload, "base64url").toString()), exp: 1e12 })}.${signature}`,
      `${none}.${payload}.`,
      `${none}.${payload}.${signature}`,
      `${symmetric}.${payload}.${createHmac("sha256", publicPem).update(`${symmetric}.${payload}`).digest("base64url")}`,
      `${head}.${payload}.${signed(`${head}.${payload}`)}`,
      `${head}.${payload}.${signature}.`,
      `${head}.${payload}.${signature}=`,
      `${head}.${payload}`,
      "",
      "a.b.c",
      `${"x".repeat(20_000)}.b.c`,
    ];
    expect(forged.filter((candidate) => tokens.verify(candidate) !== undefined)).toEqual([]);
    expect(tokens.verify(token)).toBeDefined();
  });

  test("signed by an earlier key is valid while that key is known; RSA keys sign with RS256", async () => {
    const token = await tokenOf();
    const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 })
      .privateKey.export({ type: "pkcs8", format: "pem" })
      .toString();
    const common = { privateKey: rsa, store, now: () => clock.now(), newId: () => "x" };
    const rotated = createServiceAccountTokens({ ...common, verifyingKeys: [key] });
    expect(rotated.verify(token)).toBeDefined();
    expect(createServiceAccountTokens(common).verify(token)).toBeUndefined();
    const issued = rotated.issue({
      account: { namespace: "ns", name: "bot", uid: "uid-bot" },
      audiences: [],
      expirationSeconds: 600,
    });
    expect(JSON.parse(Buffer.from(issued.token.split(".")[0] ?? "", "base64url").toString()).alg).toBe("RS256");
    expect(rotated.verify(issued.token)).toBeDefined();
  });

  test.each([
    ["too short a time", { expirationSeconds: 60 }, 422, "may not specify a duration less than 10 minutes"],
    ["too long a time", { expirationSeconds: 1e12 }, 422, "2^32"],
    ["a time that is not a number", { expirationSeconds: "1h" }, 422, "must be an integer"],
    ["an object that is not there", { boundObjectRef: { kind: "Pod", name: "none" } }, 404, 'pods "none" not found'],
    ["a kind that it can't be bound to", { boundObjectRef: { kind: "Job", name: "x" } }, 400, "Job"],
  ])("is refused for %s", async (_, spec, code, message) => {
    await expect(ask("tokenRequest", spec, admin, "ns", "bot")).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message),
    });
  });

  test("is rejected for a service account or Pod with another uid", async () => {
    await expect(ask("tokenRequest", {}, admin, "ns", "nobody")).rejects.toMatchObject({
      status: {
        code: 404,
        message: 'serviceaccounts "nobody" not found',
        details: { name: "nobody", kind: "serviceaccounts" },
      },
    });
    await put("pods", "ns", "own", "uid-own", { spec: { serviceAccountName: "bot" } });
    await expect(tokenOf({ boundObjectRef: { kind: "Pod", name: "own", uid: "old" } })).rejects.toMatchObject({
      code: 409,
      status: { details: { name: "own", kind: "Pod" } },
    });
    await put("pods", "ns", "p", "uid-p", { spec: { serviceAccountName: "else" } });
    await expect(tokenOf({ boundObjectRef: { kind: "Pod", name: "p" } })).rejects.toMatchObject({ code: 400 });
  });
});

describe("a review", () => {
  test("of the sender's own access follows RBAC", async () => {
    expect(await ask("selfSubjectAccessReview", deletePods)).toEqual({ allowed: true });
    expect(await ask("selfSubjectAccessReview", deletePods, bot)).toEqual({ allowed: false });
    expect(await ask("selfSubjectAccessReview", { nonResourceAttributes: { path: "/version", verb: "get" } }, bot)).toEqual({
      allowed: true,
      reason: expect.stringMatching(
        /^RBAC: allowed by ClusterRoleBinding "system:\S+" of ClusterRole "system:\S+" to Group "system:authenticated"$/,
      ),
    });
  });

  test("may carry the null timestamp that Go clients before 1.34 send, but no other metadata", async () => {
    const review = (metadata: object) => {
      const object = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", metadata, spec: deletePods };
      return reviews.selfSubjectAccessReview(object as KubernetesObject, { user: admin, namespace: "", name: "" });
    };
    expect(await review({ creationTimestamp: null })).toMatchObject({ status: { allowed: true } });
    await expect(review({ creationTimestamp: null, labels: { a: "b" } })).rejects.toMatchObject({ code: 422 });
  });

  test("of another user's access uses the user and groups of the request, not of the sender", async () => {
    expect(await ask("subjectAccessReview", { user: "jane", ...deletePods })).toEqual({ allowed: false });
    expect(await ask("subjectAccessReview", { groups: ["system:masters"], ...deletePods }, bot)).toEqual({ allowed: true });
    await expect(ask("subjectAccessReview", deletePods)).rejects.toMatchObject({ code: 422 });
    expect(await ask("localSubjectAccessReview", { user: "jane", ...deletePods }, admin, "ns")).toEqual({ allowed: false });
    await expect(ask("localSubjectAccessReview", { user: "jane", ...deletePods }, admin, "other")).rejects.toMatchObject({
      code: 422,
    });
  });

  test.each([[{}], [{ ...deletePods, nonResourceAttributes: { path: "/", verb: "get" } }]])(
    "of neither or both is refused: %j",
    async (spec) => {
      await expect(ask("selfSubjectAccessReview", spec)).rejects.toMatchObject({
        code: 422,
        status: {
          details: {
            causes: [{ field: expect.stringMatching(/^spec\.(?:nonR|r)esourceAttributes$/), reason: "FieldValueInvalid" }],
          },
        },
      });
    },
  );

  test("of the sender's rules lists those of the namespace and the paths", async () => {
    const status = await ask("selfSubjectRulesReview", { namespace: "ns" }, bot);
    expect(status["incomplete"]).toBe(false);
    expect(status["resourceRules"]).toContainEqual({
      verbs: ["create"],
      apiGroups: ["authorization.k8s.io"],
      resources: ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    });
    expect(JSON.stringify(status["nonResourceRules"])).toContain("/openapi/*");
    await expect(ask("selfSubjectRulesReview", {}, bot)).rejects.toMatchObject({ code: 400 });
  });

  test("of the sender's rules lists as many as one turn can encode, and says that it is incomplete", async () => {
    const rulesFor = (count: number) => () => Array.from({ length: count }, () => ({ verbs: ["get"], resources: ["pods"] }));
    const reviewOf = async (count: number): Promise<Record<string, unknown>> => {
      const { selfSubjectRulesReview } = createAccessReviews({ authorize: authorizer.authorize, rulesFor: rulesFor(count) });
      const object = { apiVersion: "v1", kind: "X", metadata: {}, spec: { namespace: "ns" } };
      const { status } = (await selfSubjectRulesReview(object, { user: bot, namespace: "", name: "" })) as KubernetesObject & {
        status: Record<string, unknown>;
      };
      return status;
    };
    expect(await reviewOf(2_000)).toMatchObject({ incomplete: false, resourceRules: { length: 2_000 } });
    expect(await reviewOf(2_001)).toMatchObject({
      incomplete: true,
      resourceRules: { length: 2_000 },
      evaluationError: "only the first 2000 of 2001 rules are listed",
    });
  });

  test("of the sender returns its identity", async () => {
    const user = { username: "jane", uid: "u", groups: ["dev"], extra: { a: ["b"] } };
    expect(await ask("selfSubjectReview", {}, user)).toEqual({ userInfo: user });
  });

  test("of the sender does not return the metadata that was sent", async () => {
    const object = {
      apiVersion: "authentication.k8s.io/v1",
      kind: "SelfSubjectReview",
      metadata: { name: "x", labels: { a: "b" } },
    };
    const { metadata } = await reviews.selfSubjectReview(object, { user: admin, namespace: "", name: "" });
    expect(Object.keys(metadata)).toEqual(["creationTimestamp"]);
  });

  test("of a token returns its user and audiences, or that it is invalid", async () => {
    const status = await ask("tokenReview", { token: await tokenOf() });
    expect(status).toMatchObject({
      authenticated: true,
      audiences: [defaultIssuer],
      user: { username: bot.username, groups: ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"] },
    });
    expect(await ask("tokenReview", { token: "no-such-token" })).toEqual({ user: {}, error: "invalid bearer token" });
    expect(await ask("tokenReview", { token: await tokenOf(), audiences: ["vault"] })).toHaveProperty("error");
    expect(await ask("tokenReview", { token: await tokenOf({ audiences: ["vault"] }), audiences: ["vault"] })).toMatchObject({
      audiences: ["vault"],
    });
    expect(await ask("tokenReview", { token: "a-long-static-token" })).toMatchObject({
      authenticated: true,
      user: { username: "root" },
    });
    expect(await ask("tokenReview", { token: "a-long-static-token", audiences: ["vault"] })).toHaveProperty("error");
  });
});

describe("the authenticator", () => {
  const authenticate = (headers: Record<string, string[]>, anonymous = false): UserInfo =>
    createAuthenticator({
      tokens: [staticTokens, (token) => tokens.verify(token)?.user],
      authorizer,
      now: () => clock.now(),
      anonymous,
    })({ headers, clientCertificate: undefined });

  const refusalOf = (headers: Record<string, string[]>): string | undefined => {
    try {
      authenticate(headers);
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  };

  test("accepts static tokens and service account tokens", async () => {
    expect(authenticate({ authorization: ["Bearer a-long-static-token"] })).toMatchObject({ username: "root" });
    expect(authenticate({ authorization: [`bearer ${await tokenOf()}`] }).groups).toContain("system:authenticated");
    expect(() => authenticate({ authorization: ["Bearer a-long-static-tokem"] })).toThrow("Unauthorized");
    expect(() => createStaticTokens([["short", admin]])).toThrow(/16 characters/);
  });

  test("accepts a client certificate until it expires, even on an open connection", async () => {
    const byCertificate = createAuthenticator({ tokens: [], authorizer, now: () => clock.now() });
    const clientCertificate = { commonName: "jane", organizations: ["dev"], notAfter: clock.now() + 1_000 };
    expect(byCertificate({ headers: {}, clientCertificate })).toEqual({
      username: "jane",
      groups: ["dev", "system:authenticated"],
    });
    await clock.advance(1_000);
    expect(() => byCertificate({ headers: {}, clientCertificate })).toThrow("Unauthorized");
  });

  test("rejects requests without credentials by default, and invalid tokens always", () => {
    expect(() => authenticate({})).toThrow("Unauthorized");
    expect(authenticate({}, true)).toEqual(anonymousUser);
    expect(() => authenticate({ authorization: ["Bearer wrong"] }, true)).toThrow("Unauthorized");
  });

  test("ignores text after a token, other schemes and an empty token", () => {
    expect(authenticate({ authorization: ["Bearer a-long-static-token junk"] }, true)).toMatchObject({ username: "root" });
    expect(() => authenticate({ authorization: ["Bearer wrong junk"] }, true)).toThrow("Unauthorized");
    expect(authenticate({ authorization: ["Basic YTpi"] }, true)).toEqual(anonymousUser);
    expect(authenticate({ authorization: ["Bearer "] }, true)).toEqual(anonymousUser);
  });

  test("authorizes the impersonation of each user, group, uid and extra value", async () => {
    const headers = {
      authorization: [`Bearer ${await tokenOf()}`],
      "impersonate-user": ["system:serviceaccount:ns:other"],
      "impersonate-uid": ["7"],
      "impersonate-extra-scope": ["x"],
    };
    const rules = [
      { verbs: ["impersonate"], apiGroups: [""], resources: ["serviceaccounts"], resourceNames: ["other"] },
      { verbs: ["impersonate"], apiGroups: ["authentication.k8s.io"], resources: ["uids"], resourceNames: ["7"] },
      { verbs: ["impersonate"], apiGroups: ["authentication.k8s.io"], resources: ["userextras/scope"], resourceNames: ["x"] },
    ];
    const group = "rbac.authorization.k8s.io";
    const subjects = [{ kind: "ServiceAccount", name: "bot", namespace: "ns" }];
    const roleRef = { apiGroup: group, kind: "ClusterRole", name: "imp" };
    const bound = { apiVersion: `${group}/v1`, kind: "ClusterRoleBinding", metadata: { name: "imp" }, subjects, roleRef };
    await store.write(storageKey({ group, plural: "clusterrolebindings" }, "", "imp"), 0, bound);
    let revision = 0;
    const refusals: (string | undefined)[] = [];
    for (let given = 0; given <= rules.length; given++) {
      const role = { apiVersion: `${group}/v1`, kind: "ClusterRole", metadata: { name: "imp" }, rules: rules.slice(0, given) };
      const written = await store.write(storageKey({ group, plural: "clusterroles" }, "", "imp"), revision, role);
      revision = written.ok ? written.stored.revision : 0;
      refusals.push(refusalOf(headers));
    }
    expect(refusals.map((refusal) => refusal?.split(" is forbidden")[0])).toEqual([
      'serviceaccounts "other"',
      'uids.authentication.k8s.io "7"',
      'userextras.authentication.k8s.io "x"',
      undefined,
    ]);
    expect(authenticate(headers)).toEqual({
      username: "system:serviceaccount:ns:other",
      uid: "7",
      groups: ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
      extra: { scope: ["x"] },
    });
    expect(() => authenticate({ ...headers, "impersonate-group": ["system:masters"] })).toThrow(
      /groups "system:masters" is forbidden/,
    );
  });
});
