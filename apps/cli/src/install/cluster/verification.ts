import {
  ignoreNotFound,
  jsonEquals,
  type KubernetesObject,
  type ResourceDefinition,
  type ResourceType,
  type Stored,
} from "@keelson/api-machinery";
import {
  CustomResourceDefinition,
  Deployment,
  type DeploymentObject,
  Lease,
  Pod,
  type PolicyRule,
  serviceAccountSubject,
  SubjectAccessReview,
} from "@keelson/api-machinery/kinds";
import { type Clock, parseTime } from "@keelson/api-machinery/time";
import type { ApplyConfiguration, Client } from "@keelson/client";
import { clusterRulesOf, leaseNameOf, type Operator } from "@keelson/operator";
import { componentLabel, objectName } from "../objects/install-object.ts";
import { podTrouble, rolloutState } from "./rollout.ts";

/** The result of one check of an installation. */
export interface CheckResult {
  readonly operator: string;
  readonly check: "kinds" | "rights" | "rollout" | "leader";
  /** What is wrong; absent if nothing is. */
  readonly problem?: string;
  /** The command that fixes it, or shows more. */
  readonly fix?: string;
}

/** Options of {@link verifyOperator}. */
export interface VerifyOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly namespace: string;
  readonly operator: Operator;
  /** Version of this command, which the operators should have. */
  readonly version: string;
  readonly signal: AbortSignal;
}

/**
 * Checks an operator in a cluster: whether its kinds are those of this version, its service account has the declared permissions, its
 * Pods run this version and are ready, and a replica leads. Changes nothing; needs the permissions of an administrator.
 */
export async function verifyOperator(options: VerifyOptions): Promise<readonly CheckResult[]> {
  const { client, namespace, operator, signal } = options;
  const deployment = await ignoreNotFound(client.get(Deployment, { namespace, name: objectName(operator.name) }, { signal }));
  const upgrade = `keelson upgrade --only ${operator.name} -n ${namespace}`;
  const kinds = await checkKinds(options);
  const result = (check: CheckResult["check"], problem: string | undefined, fix: string): CheckResult => ({
    ...{ operator: operator.name, check },
    ...(problem === undefined ? {} : { problem, fix }),
  });
  if (deployment === undefined) {
    const install = `keelson install --only ${operator.name} -n ${namespace}`;
    return [result("rollout", `not installed in namespace ${namespace}`, install)];
  }
  return [
    result("kinds", kinds, upgrade),
    result("rights", await checkRights(options), upgrade),
    result(
      "rollout",
      await checkRollout(options, deployment),
      `kubectl describe pods -n ${namespace} -l ${componentLabel}=${operator.name}`,
    ),
    ...(deployment.spec.replicas === 0
      ? []
      : [result("leader", await checkLeader(options), `kubectl logs -n ${namespace} deployment/${objectName(operator.name)}`)]),
  ];
}

/** A dry run of the apply shows what it would change. */
async function checkKinds({ client, operator, signal }: VerifyOptions): Promise<string | undefined> {
  const problems: string[] = [];
  for (const { crd } of operator.resources) {
    const { name } = crd.metadata;
    const present = await ignoreNotFound(client.get(CustomResourceDefinition, { name }, { signal }));
    if (present === undefined) problems.push(`${name} is missing`);
    else if (!(await matches(client, crd, present.spec, signal))) problems.push(`${name} differs from this version's`);
  }
  return problems.length === 0 ? undefined : problems.join(", ");
}

async function matches(client: Client, crd: ResourceDefinition["crd"], spec: unknown, signal: AbortSignal): Promise<boolean> {
  const { apiVersion, kind, metadata } = crd;
  const configuration = { apiVersion, kind, metadata: { name: metadata.name }, spec: crd.spec };
  const after = await client.apply(
    CustomResourceDefinition as ResourceType,
    configuration as unknown as ApplyConfiguration<KubernetesObject>,
    { fieldManager: "keelson-install", dryRun: true, signal },
  );
  return "spec" in after && jsonEquals(spec, after.spec);
}

async function checkRights({ client, operator, namespace, signal }: VerifyOptions): Promise<string | undefined> {
  const subject = serviceAccountSubject({ namespace, name: operator.name });
  const missing: string[] = [];
  for (const resourceAttributes of clusterRulesOf(operator).flatMap(attributesOf)) {
    const review = await client.create(
      SubjectAccessReview,
      { metadata: {}, spec: { ...subject, resourceAttributes } },
      { signal },
    );
    const { verb = "", resource = "", subresource } = resourceAttributes;
    if (review.status?.allowed !== true)
      missing.push(`${verb} ${resource}${subresource === undefined ? "" : `/${subresource}`}`);
  }
  return missing.length === 0 ? undefined : `service account ${operator.name} may not ${[...new Set(missing)].join(", ")}`;
}

/** Every single permission of a rule, as a SubjectAccessReview names it. */
function attributesOf({ apiGroups = [], resources = [], resourceNames = [""], verbs }: PolicyRule): Record<string, string>[] {
  return apiGroups.flatMap((group) =>
    resources.flatMap((path) =>
      resourceNames.flatMap((name) =>
        verbs.map((verb) => {
          const [resource = "", subresource] = path.split("/");
          return {
            group,
            resource,
            verb,
            ...(subresource === undefined ? {} : { subresource }),
            ...(name === "" ? {} : { name }),
          };
        }),
      ),
    ),
  );
}

async function checkRollout(
  { client, namespace, operator, version, signal }: VerifyOptions,
  deployment: Stored<DeploymentObject>,
): Promise<string | undefined> {
  const image = deployment.spec.template.spec?.containers[0]?.image ?? "";
  if (!image.includes(`:${version}`)) return `runs the image ${image}, which is not of this command's version ${version}`;
  const { ready, desired, isDone } = rolloutState(deployment);
  if (isDone) return undefined;
  const { items } = await client.list(Pod, { namespace, labelSelector: `${componentLabel}=${operator.name}`, signal });
  const troubles = items.map(podTrouble).filter((trouble) => trouble !== undefined);
  return [`${ready} of ${desired} replicas are ready`, ...new Set(troubles)].join(": ");
}

/** How long after the end of its Lease a leader may be missing. */
const leaseToleranceMs = 5_000;

async function checkLeader({ client, clock, namespace, operator, signal }: VerifyOptions): Promise<string | undefined> {
  const lease = await ignoreNotFound(client.get(Lease, { namespace, name: leaseNameOf(operator) }, { signal }));
  const { holderIdentity = "", renewTime = "", leaseDurationSeconds = 15 } = lease?.spec ?? {};
  if (holderIdentity === "") return "no replica leads";
  const renewedMs = parseTime(renewTime) ?? 0;
  const ageMs = clock.now() - renewedMs;
  if (ageMs <= leaseDurationSeconds * 1000 + leaseToleranceMs) return undefined;
  return `${holderIdentity} has not renewed its lease for ${Math.round(ageMs / 1000)} s`;
}
