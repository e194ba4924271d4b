import { strict as assert } from "node:assert";
import { createHash, randomBytes } from "node:crypto";
import type { CredentialEngine, Credentials, ProgramUser as UserCredentials } from "../credentials/credential-engine.ts";
import { createScramVerifier } from "../credentials/scram.ts";
import type { EngineContractOptions } from "./contract.ts";
import { assignPrimary, assignReplica, type PodCase, type Pods } from "./contract-steps.ts";

const hashOf = (password: string): string => createHash("sha256").update(password).digest("hex");

/** Creates credentials with one default user, and further users with the password of their name. */
type CreateCredentials = (
  sequence: number,
  passwords: readonly string[],
  users?: Readonly<Record<string, readonly string[]>>,
) => Promise<Credentials>;

function credentialsOf({ password, defaultLogin }: EngineContractOptions): CreateCredentials {
  // Two logins alternate: the first one has the password that the Pods were started with.
  const loginOf = (text: string): string => (text === password ? `${defaultLogin}` : `${defaultLogin}_b`);
  const loginsOf = async (logins: readonly (readonly [string, string])[]): Promise<Pick<UserCredentials, "logins">> => {
    if (defaultLogin === undefined) return {};
    const verified = logins.map(async ([name, text]) => ({ name, verifier: await createScramVerifier(text, randomBytes(16)) }));
    return { logins: await Promise.all(verified) };
  };
  return async (sequence, passwords, users = {}) => ({
    ...{ sequence, password: passwords[0] ?? "" },
    ...(defaultLogin === undefined ? {} : { login: loginOf(passwords[0] ?? "") }),
    users: [
      {
        ...{ name: "default", rules: [], passwordHashes: passwords.map(hashOf) },
        ...(await loginsOf(passwords.map((text) => [loginOf(text), text]))),
      },
      ...(await Promise.all(
        Object.entries(users).map(async ([name, rules]) => ({
          ...{ name, rules, passwordHashes: [hashOf(name)] },
          ...(await loginsOf([[name, name]])),
        })),
      )),
    ],
  });
}

interface Subject {
  readonly engineOf: (index: number) => CredentialEngine;
  readonly credentialsOf: CreateCredentials;
  readonly password: string;
  readonly rules: NonNullable<EngineContractOptions["rules"]>;
  /** Whether a Pod accepts each of some logins. */
  readonly logins: (index: number, ...logins: readonly (readonly [string, string])[]) => Promise<readonly boolean[]>;
}

/** What the cases need, unless the engine has no users. */
function subjectOf(pods: Pods, options: EngineContractOptions): Subject | undefined {
  const { password, rules } = options;
  if (pods.at(0).engine.credentials === undefined || password === undefined || rules === undefined) return undefined;
  return {
    engineOf: (index) => pods.at(index).engine.credentials ?? assert.fail("an engine has users, and another one none"),
    ...{ credentialsOf: credentialsOf(options), password, rules },
    logins: (index, ...logins) =>
      Promise.all(logins.map(async ([user, text]) => (await pods.at(index).canLogIn?.(user, text)) ?? assert.fail("canLogIn"))),
  };
}

/** Cases of engines with users. Others pass them. */
export const credentialCases: readonly PodCase[] = [
  {
    title: "accepts two passwords during a rotation, even after a restart, and one afterwards",
    pods: 1,
    async run(pods, options) {
      const subject = subjectOf(pods, options);
      if (subject === undefined) return;
      const { credentialsOf, engineOf, logins, password } = subject;
      await assignPrimary(pods, 0, 1);
      const both = [
        ["default", password],
        ["default", "next"],
      ] as const;
      assert.deepEqual(await logins(0, ...both), [true, false]);
      assert.deepEqual(await engineOf(0).set(await credentialsOf(1, ["next", password])), { ok: true });
      assert.deepEqual(await logins(0, ...both), [true, true]);
      assert.equal((await pods.at(0).engine.role()).info["credentials"], "1");
      assert.deepEqual([engineOf(0).accepts("default", password), engineOf(0).accepts("default", "other")], [true, false]);
      await pods.at(0).crash();
      assert.deepEqual(await logins(0, ...both), [false, false], "no client before it has a role");
      await assignPrimary(pods, 0, 1);
      assert.deepEqual(await logins(0, ...both), [true, true]);
      assert.deepEqual(await engineOf(0).set(await credentialsOf(2, ["next"])), { ok: true });
      assert.deepEqual(await logins(0, ...both), [false, true]);
      assert.equal((await engineOf(0).set(await credentialsOf(1, [password]))).ok, false, "an older sequence is refused");
      assert.deepEqual(await logins(0, ...both), [false, true]);
    },
  },
  {
    title: "creates, changes and deletes users, and rejects invalid rules",
    pods: 1,
    async run(pods, options) {
      const subject = subjectOf(pods, options);
      if (subject === undefined) return;
      const { credentialsOf, engineOf, logins, password, rules } = subject;
      await assignPrimary(pods, 0, 1);
      assert.deepEqual(await engineOf(0).set(await credentialsOf(1, [password], { reader: rules.valid })), { ok: true });
      assert.deepEqual(await logins(0, ["reader", "reader"], ["reader", "wrong"]), [true, false]);
      const rejected = await engineOf(0).set(
        await credentialsOf(2, [password], { reader: rules.valid, broken: rules.invalid }),
      );
      assert.ok(rejected.ok === false && rejected.error.includes("broken"), "the message names the user");
      assert.deepEqual(await logins(0, ["reader", "reader"], ["default", password]), [true, true]);
      assert.deepEqual(await engineOf(0).set(await credentialsOf(3, [password])), { ok: true });
      assert.deepEqual(await logins(0, ["reader", "reader"], ["default", password]), [false, true]);
      await pods.at(0).crash();
      const isolated = await engineOf(0).set(await credentialsOf(4, [password], { broken: rules.invalid }));
      assert.ok(isolated.ok === false && isolated.error.includes("broken"), "rules are validated before it has a role");
      await assignPrimary(pods, 0, 1);
      assert.deepEqual(await logins(0, ["default", password]), [true]);
    },
  },
  {
    title: "replicates and hands its role over while the Pods have different passwords",
    pods: 2,
    async run(pods, options) {
      const subject = subjectOf(pods, options);
      if (subject === undefined) return;
      const { credentialsOf, engineOf, password } = subject;
      await assignPrimary(pods, 0, 1);
      await assignReplica(pods, 1, 0, 1);
      assert.equal(await pods.at(0).write("before"), true);
      // The first Pod accepts both, the second one only the old password.
      assert.deepEqual(await engineOf(0).set(await credentialsOf(1, ["next", password])), { ok: true });
      const order = { target: pods.at(1).host, others: [], epoch: 2, timeoutMs: 20_000 };
      assert.deepEqual(await pods.at(0).engine.failover(order), { ok: true });
      assert.deepEqual(await engineOf(1).set(await credentialsOf(1, ["next", password])), { ok: true });
      await assignReplica(pods, 0, 1, 2);
      assert.equal(await pods.at(0).has("before"), true);
    },
  },
  {
    title: "fences a primary that has another password before it takes over",
    pods: 2,
    async run(pods, options) {
      const subject = subjectOf(pods, options);
      // With one password per login, replicas have the logins of their primary.
      if (subject === undefined || options.defaultLogin !== undefined) return;
      const { credentialsOf, engineOf, password } = subject;
      await assignPrimary(pods, 0, 1);
      await assignReplica(pods, 1, 0, 1);
      assert.deepEqual(await engineOf(1).set(await credentialsOf(1, ["next", password])), { ok: true });
      const order = { target: pods.at(1).host, others: [], epoch: 2, timeoutMs: 20_000 };
      assert.deepEqual(await pods.at(1).engine.failover(order), { ok: true });
      assert.equal(await pods.at(0).engine.isFenced(), true);
    },
  },
  {
    title: "does not take over from a primary that accepts none of its passwords",
    pods: 2,
    async run(pods, options) {
      const subject = subjectOf(pods, options);
      if (subject === undefined) return;
      await assignPrimary(pods, 0, 1);
      await assignReplica(pods, 1, 0, 1);
      assert.deepEqual(await subject.engineOf(0).set(await subject.credentialsOf(1, ["next"])), { ok: true });
      const order = { target: pods.at(1).host, others: [], epoch: 2, timeoutMs: 20_000 };
      const outcome = await pods.at(1).engine.failover(order);
      assert.ok(!outcome.ok && outcome.mustTerminate === true);
    },
  },
];
