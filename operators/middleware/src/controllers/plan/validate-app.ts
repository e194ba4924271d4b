import type { DeepReadonly } from "@keelson/api-machinery";
import { compareQuantities, isQuantity } from "@keelson/api-machinery/quantity";
import type { App } from "../../api/app.ts";
import type { ComponentSpec } from "../../api/component.ts";
import type { Group } from "../../api/group.ts";
import { accessSecretName, authorityName, labels } from "../../api/names.ts";
import { hasAgent, hasPair, hasVersion, type Plugin } from "../../plugin/plugin.ts";
import { secretOf } from "../credentials/password-secret.ts";
import { desiredComponents, keysOf } from "./desired-components.ts";

type GroupSpec = DeepReadonly<ComponentSpec>["groups"][number];

/** An invalid field of an App. */
export interface FieldError {
  readonly field: string;
  readonly message: string;
}

/** Validates an App against its plugin, the applied specs of its Components and its Groups, before anything is planned. */
export function validateApp(
  app: DeepReadonly<App>,
  plugin: Plugin,
  applied: ReadonlyMap<string, DeepReadonly<ComponentSpec>>,
  groups: readonly DeepReadonly<Group>[],
): readonly FieldError[] {
  return [
    ...agentChangeProblems(app, plugin, groups),
    ...rolloutProblems(app, groups),
    ...runtimeProblems(app, plugin),
    ...nameProblems(app, plugin),
    ...userProblems(app, plugin),
    ...secretNameProblems(app),
    ...[...desiredComponents(app, plugin)].flatMap(([name, desired]) => {
      const before = applied.get(name);
      return [
        ...parameterProblems(desired, plugin),
        ...desired.groups.flatMap((group) => {
          const old = before?.groups.find((each) => each.name === group.name);
          const field = `spec.components.${name}.${group.name}`;
          return [...storageProblems(`${field}.storage`, old, group), ...agentProblems(field, group, hasAgent(plugin, name))];
        }),
        ...upgradeProblems(before, desired, plugin),
        ...tlsProblems(before, desired, plugin),
      ];
    }),
  ];
}

function runtimeProblems({ spec: { runtime } }: DeepReadonly<App>, { runtimes }: Plugin): readonly FieldError[] {
  const known = runtimes.find((each) => each.name === runtime.name);
  if (known === undefined) {
    const names = runtimes.map((each) => each.name).join(", ");
    return [{ field: "spec.runtime.name", message: `${JSON.stringify(runtime.name)} must be one of ${names}` }];
  }
  if (hasVersion(known.versions, runtime.version)) return [];
  const message = `${JSON.stringify(runtime.version)} must be one of ${known.versions.join(", ")}`;
  return [{ field: "spec.runtime.version", message }];
}

/** Components and groups that the plugin does not have. */
function nameProblems({ spec: { components = [] } }: DeepReadonly<App>, plugin: Plugin): readonly FieldError[] {
  return components.flatMap(({ name, groups = [] }, index) => {
    const field = `spec.components[${index}]`;
    const own = plugin.components.find((each) => each.name === name);
    if (own === undefined) {
      const names = plugin.components.map((each) => each.name).join(", ");
      return [{ field: `${field}.name`, message: `unknown component ${JSON.stringify(name)}; must be one of ${names}` }];
    }
    return groups.flatMap((group, at) => {
      if (own.groups.some((each) => each.name === group.name)) return [];
      const names = own.groups.map((each) => each.name).join(", ");
      const message = `unknown group ${JSON.stringify(group.name)} of ${name}; must be one of ${names}`;
      return [{ field: `${field}.groups[${at}].name`, message }];
    });
  });
}

/** Names of parameters. Others could inject a line into a configuration file. */
const parameterName = /^[\w.$/:-]+$/;

function parameterProblems({ config }: DeepReadonly<ComponentSpec>, { parameters }: Plugin): readonly FieldError[] {
  const names = keysOf(config, undefined);
  const field = (name: string): string => `spec.config.${name}`;
  const hasNul = (name: string): boolean => String(config?.[name]).includes("\0");
  return [
    ...names
      .filter((name) => !parameterName.test(name))
      .map((name) => ({
        field: field(JSON.stringify(name)),
        message: "must be a name of letters, digits and the characters _ . $ / : -",
      })),
    ...names.filter(hasNul).map((name) => ({ field: field(name), message: "must not contain a NUL character" })),
    ...names
      // Programs ignore the case of parameters.
      .filter((name) => parameters[name] === "forbidden" || parameters[name.toLowerCase()] === "forbidden")
      .map((name) => ({
        field: field(name),
        message: "must not be set: it would break replication or the volumes",
      })),
  ];
}

/** Fields of a group that need agents, or Pods without them. */
function agentProblems(
  field: string,
  { highAvailability, rollingUpdate }: GroupSpec,
  isAgentRunning: boolean,
): readonly FieldError[] {
  if (!isAgentRunning && highAvailability !== undefined)
    return [{ field: `${field}.highAvailability`, message: "must not be set: the Pods have no agent and no primary" }];
  const { maxUnavailable = 1 } = rollingUpdate ?? {};
  if (!isAgentRunning || maxUnavailable === 1) return [];
  const message = `${maxUnavailable} must be 1: replicated Pods are replaced one at a time`;
  return [{ field: `${field}.rollingUpdate.maxUnavailable`, message }];
}

/** Users of an App whose programs have none, or which share a Secret that names the login of one of them. */
function userProblems(app: DeepReadonly<App>, { hasUsers, defaultLogin, name, version }: Plugin): readonly FieldError[] {
  const { users = [] } = app.spec;
  const reserved = users.findIndex((user) => user.name === defaultLogin);
  if (reserved >= 0)
    return [{ field: `spec.users[${reserved}].name`, message: `must not be ${defaultLogin}: the default user has this login` }];
  const secrets = ["default", ...users.map((user) => user.name)].map((user) => secretOf(app, user));
  const shared = secrets.findIndex((secret, index) => secrets.indexOf(secret) < index) - 1;
  if (defaultLogin !== undefined && shared >= 0) {
    const message = `must not be ${secrets[shared + 1]}: another user has its password and its login in this Secret`;
    return [{ field: `spec.users[${shared}].passwordSecret.name`, message }];
  }
  if (hasUsers !== false || users.length === 0) return [];
  return [{ field: "spec.users", message: `must be empty: plugin ${name} ${version} does not support users` }];
}

/** Changes of a group's volumes that are not possible. */
function storageProblems(field: string, before: GroupSpec | undefined, after: GroupSpec): readonly FieldError[] {
  if (before === undefined) return [];
  const problems: FieldError[] = [];
  const [from, to] = [before.storage?.size, after.storage?.size];
  if (from !== undefined && to !== undefined && isQuantity(from) && isQuantity(to) && compareQuantities(to, from) < 0)
    problems.push({ field: `${field}.size`, message: `a volume cannot shrink from ${from} to ${to}` });
  if ((from === undefined) !== (to === undefined))
    problems.push({ field, message: "a volume cannot be added to or removed from existing Pods" });
  if (before.storage && after.storage && before.storage.storageClass !== after.storage.storageClass)
    problems.push({ field: `${field}.storageClass`, message: "must not change: not supported yet" });
  return problems;
}

/** A Secret for TLS whose name the operator uses for its own. */
function secretNameProblems({ metadata: { name = "" }, spec: { tls } }: DeepReadonly<App>): readonly FieldError[] {
  const { secretName } = tls ?? {};
  if (secretName === undefined || ![authorityName(name), accessSecretName(name)].includes(secretName)) return [];
  const message = `must not be ${secretName}: the operator keeps its own keys in a Secret of this name`;
  return [{ field: "spec.tls.secretName", message }];
}

/** Changes of TLS that would separate the changed Pods of a group from the others. */
function tlsProblems(
  before: DeepReadonly<ComponentSpec> | undefined,
  { tls, groups }: DeepReadonly<ComponentSpec>,
  { hasTls }: Plugin,
): readonly FieldError[] {
  const problems: FieldError[] = [];
  const field = "spec.tls.mode";
  if (tls !== undefined && !hasTls) problems.push({ field, message: `must be disabled: the plugin does not support TLS` });
  if (before === undefined) return problems;
  const partitioned = groups.find(({ rollingUpdate }) => (rollingUpdate?.partition ?? 0) > 0);
  if (partitioned !== undefined && before.tls?.mode !== tls?.mode)
    problems.push({ field, message: `must not change while group ${partitioned.name} has a rollingUpdate.partition` });
  const [from, to] = [before.tls?.mode ?? "disabled", tls?.mode ?? "disabled"];
  if ([from, to].includes("disabled") && [from, to].includes("require"))
    problems.push({ field, message: `must not change from ${from} to ${to}: change it to prefer first` });
  if (before.tls !== undefined && tls !== undefined && before.tls.secretName !== tls.secretName)
    problems.push({
      field: "spec.tls.secretName",
      message: "must not change while TLS is in use: change the content of the Secret, or disable TLS first",
    });
  return problems;
}

/** A version of a plugin that adds agents to the Pods of a component, or removes them. */
function agentChangeProblems(
  { spec }: DeepReadonly<App>,
  plugin: Plugin,
  groups: readonly DeepReadonly<Group>[],
): readonly FieldError[] {
  return plugin.components.flatMap(({ name, hasAgent: isWanted }) => {
    const group = groups.find(
      ({ metadata, status }) => metadata.labels?.[labels.component] === name && status?.hasAgents === !isWanted,
    );
    if (group === undefined) return [];
    const [wanted, current] = isWanted ? ["with", "without"] : ["without", "with"];
    const message = `${JSON.stringify(spec.plugin.version)} runs the Pods of component ${name} ${wanted} agents, but those of group ${group.metadata.name ?? ""} run ${current}: must not change`;
    return [{ field: "spec.plugin.version", message }];
  });
}

/** A change to `require` while Pods may still lack TLS: the changed Pods could not talk to them, nor know whether they are primaries. */
function rolloutProblems({ spec }: DeepReadonly<App>, groups: readonly DeepReadonly<Group>[]): readonly FieldError[] {
  if (spec.tls?.mode !== "require") return [];
  const isComplete = ({ metadata, status }: DeepReadonly<Group>): boolean =>
    status?.observedGeneration === metadata.generation && status?.currentRevision === status?.updateRevision;
  const open = groups.find((each) => each.spec.tls === undefined || (each.spec.tls.mode === "prefer" && !isComplete(each)));
  if (open === undefined) return [];
  const message = `must not change to require before all Pods of group ${open.metadata.name ?? ""} have the mode prefer`;
  return [{ field: "spec.tls.mode", message }];
}

function upgradeProblems(
  before: DeepReadonly<ComponentSpec> | undefined,
  { runtime, groups }: DeepReadonly<ComponentSpec>,
  { migrateFrom, stopFor }: Plugin,
): readonly FieldError[] {
  const old = before?.runtime.version;
  if (old === undefined || old === runtime.version) return [];
  const held = groups.find(({ rollingUpdate }) => (rollingUpdate?.partition ?? 0) > 0);
  if (held !== undefined && hasPair(stopFor, old, runtime.version)) {
    const reason = `all Pods are stopped for the upgrade from ${old}, so rollingUpdate.partition of group ${held.name} must be 0`;
    return [{ field: "spec.runtime.version", message: reason }];
  }
  const [, from] = Object.entries(migrateFrom).find(([to]) => hasVersion([to], runtime.version)) ?? [];
  if (from && hasVersion(from, old)) return [];
  const advice = from ? `; upgrade to ${from.join(" or ")} first` : "";
  const message = `the plugin does not support the upgrade from ${old} to ${runtime.version}${advice}`;
  return [{ field: "spec.runtime.version", message }];
}
