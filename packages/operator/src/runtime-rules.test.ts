import {
  ClusterRole,
  ClusterRoleBinding,
  EventsEvent,
  Lease,
  Namespace,
  Role,
  RoleBinding,
  ServiceAccount,
} from "@keelson/api-machinery/kinds";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { expect, test } from "vitest";
import { createManager, defineController, type Logger, silentLogger } from "@keelson/controller";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { clusterRulesOf, leaderElectionRules, leaseNameOf } from "./runtime-rules.ts";

test("events, event series and the lease need exactly the runtime's rules", async () => {
  await using environment = await startTestEnvironment();
  const admin = createClient({ transport: environment.transport(), fieldManager: "test" });
  const operator = {
    name: "accounts",
    rules: [{ apiGroups: [""], resources: ["serviceaccounts"], verbs: ["get", "list", "watch"] }],
  };
  const namespace = "a";
  await admin.create(Namespace, { metadata: { name: namespace } });
  const subjects = [{ apiGroup: ClusterRole.group, kind: "User" as const, name: "limited" }];
  const metadata = { name: "limited" };
  const roleRef = { apiGroup: ClusterRole.group, name: "limited" };
  await admin.create(ClusterRole, { metadata, rules: [...clusterRulesOf(operator)] });
  await admin.create(ClusterRoleBinding, { metadata, roleRef: { ...roleRef, kind: "ClusterRole" }, subjects });
  const inNamespace = { ...metadata, namespace };
  await admin.create(Role, { metadata: inNamespace, rules: [...leaderElectionRules(leaseNameOf(operator))] });
  await admin.create(RoleBinding, { metadata: inNamespace, roleRef: { ...roleRef, kind: "Role" }, subjects });
  const logged: unknown[] = [];
  const log: Logger = {
    ...silentLogger,
    child: () => log,
    warn: (fields, message) => logged.push([message, fields]),
    error: (fields, message) => logged.push([message, fields]),
  };
  const worked = createDeferred<void>();
  const controller = defineController({
    name: "accounts",
    for: ServiceAccount,
    async reconcile({ namespace: where, name }, { cache, events }) {
      const account = cache.get(ServiceAccount, { namespace: where, name });
      if (account === undefined || name !== "robot") return;
      for (let time = 0; time < 3; time++) events.event(account, { type: "Normal", reason: "Seen", note: "was seen" });
      worked.resolve(undefined);
    },
  });
  const client = createClient({
    transport: environment.transport({ username: "limited", groups: ["system:authenticated"] }),
    fieldManager: "limited",
  });
  const manager = createManager({
    ...{ client, name: "accounts", controllers: [controller], logger: log },
    leaderElection: { namespace, name: leaseNameOf(operator) },
  });
  await manager.start();
  await admin.create(ServiceAccount, { metadata: { name: "robot", namespace } });
  await worked.promise;
  await manager.stop();
  expect(logged).toEqual([]);
  expect((await admin.get(Lease, { namespace, name: "keelson-accounts" })).spec?.holderIdentity ?? "").toBe("");
  const [event] = (await admin.list(EventsEvent, { namespace })).items;
  expect(event?.series?.count).toBe(3);
});
