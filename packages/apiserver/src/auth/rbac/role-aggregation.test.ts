import { isJsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemUser } from "../../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { aggregated } from "./role-aggregation.ts";

let environment: TestEnvironment;
beforeEach(async () => {
  environment = await startTestEnvironment();
});
afterEach(() => environment.stop());

const path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const rule = (resource: string) => ({ verbs: ["get"], apiGroups: [""], resources: [resource] });

const role = (
  name: string,
  labels: Record<string, string>,
  rules: readonly unknown[],
  gathers?: Record<string, string>,
): KubernetesObject =>
  ({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRole",
    metadata: { name, labels },
    rules,
    ...(gathers === undefined ? {} : { aggregationRule: { clusterRoleSelectors: [{ matchLabels: gathers }] } }),
  }) as KubernetesObject;

test("a role aggregates the rules of others by name, without duplicates, and not its own", () => {
  const all = role("all", { x: "1" }, [rule("secrets")], { x: "1" });
  const others = [
    role("b", { x: "1" }, [rule("pods"), rule("nodes")]),
    role("a", { x: "1" }, [rule("pods")]),
    role("c", {}, [rule("jobs")]),
  ];
  expect(aggregated(all, [all, ...others])).toEqual([rule("pods"), rule("nodes")]);
  expect(aggregated(others[0] ?? all, [all])).toBeUndefined();
});

/** Resolves with the rules of a ClusterRole when they are as many as that. */
function rulesOf({ store }: TestEnvironment, name: string, count: number): Promise<readonly unknown[]> {
  const key = `rbac.authorization.k8s.io/clusterroles//${name}`;
  const read = (): readonly unknown[] => {
    const object: unknown = store.get(key)?.object;
    return isJsonObject(object) && Array.isArray(object["rules"]) ? object["rules"] : [];
  };
  return new Promise((resolve) => {
    const watch = store.watch(key, store.revision, () => check());
    const check = (): void => {
      if (read().length !== count) return;
      watch.close();
      resolve(read());
    };
    check();
  });
}

test("aggregated rules follow their source roles, even through roles that are aggregated themselves", async () => {
  const create = (object: KubernetesObject) => environment.handle({ method: "POST", path, body: object, user: systemUser });
  await create(role("outer", {}, [], { to: "outer" }));
  await create(role("inner", { to: "outer" }, [], { to: "inner" }));
  await create(role("leaf", { to: "inner" }, [rule("pods")]));
  expect(await rulesOf(environment, "outer", 1)).toEqual([rule("pods")]);
  await create(role("leaf2", { to: "inner" }, [rule("nodes")]));
  expect(await rulesOf(environment, "outer", 2)).toEqual([rule("pods"), rule("nodes")]);
  await environment.handle({ method: "DELETE", path: `${path}/leaf`, user: systemUser });
  expect(await rulesOf(environment, "outer", 1)).toEqual([rule("nodes")]);
});

test("the default roles show their aggregated rules", async () => {
  const view = environment.store.get("rbac.authorization.k8s.io/clusterroles//system:aggregate-to-view")?.object;
  const own: unknown = Reflect.get(view ?? {}, "rules");
  const count = Array.isArray(own) ? own.length : 0;
  expect(await rulesOf(environment, "view", count)).toEqual(own);
});
