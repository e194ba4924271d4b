import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { type DeepReadonly, draft, isNotFound } from "@keelson/api-machinery";
import type { NewObject } from "@keelson/client";
import { type CommandContext, type CommandDefinition, formatResult, outputFlag } from "@keelson/operator";
import { isUsageError, pairsFlag, textFlag, UsageError } from "@keelson/operator/flags";
import { Job } from "../api/job.ts";
import { draftOf } from "../controllers/jobs/parent-decision.ts";
import { childName } from "../work/child-name.ts";
import { type DispatchParameters, dispatchProblem } from "../work/dispatch-parameters.ts";
import { controllerReference } from "../work/owner.ts";
import { namespaceFlag } from "./flags.ts";

const flags = {
  meta: pairsFlag({ name: "meta", value: "KEY=VALUE", description: "metadata; programs get it as K8S4R_META_<KEY>" }),
  payload: textFlag({
    name: "payload",
    value: "FILE",
    description: "file of at most 16 KiB that tasks with dispatchPayload receive",
  }),
};

/** `keelson robots dispatch JOB`. */
export const dispatchCommand: CommandDefinition = {
  name: "dispatch",
  description: "create a job from a parameterized one, with metadata and a payload",
  args: ["JOB"],
  flags: [namespaceFlag, ...Object.values(flags), outputFlag],
  run: dispatch,
};

async function dispatch(context: CommandContext): Promise<number> {
  const { args, flags: values, stdout, stderr, signal, clock } = context;
  const [name = ""] = args;
  const namespace = namespaceFlag.read(values);
  let parameters: DispatchParameters;
  try {
    parameters = await readParameters(values);
  } catch (error) {
    if (!isUsageError(error)) throw error;
    stderr.write(`${error.message}\n`);
    return 2;
  }
  const client = await context.client();
  try {
    const parent = await client.get(Job, { namespace, name }, { signal });
    const { parameterized } = parent.spec;
    const problem =
      parameterized === undefined
        ? "it is not parameterized; set spec.parameterized"
        : dispatchProblem(parameterized, parameters);
    if (problem !== undefined) {
      stderr.write(`cannot dispatch job ${name}: ${problem}\n`);
      return 1;
    }
    const suffix = `${Math.floor(clock.now() / 1000)}-${randomBytes(3).toString("hex")}`;
    const created = await client.create(Job, dispatchedJob(parent, parameters, suffix), { signal });
    stdout.write(formatResult({ flags: values }, created, () => `job ${created.metadata.name} dispatched\n`));
    return 0;
  } catch (error) {
    if (!isNotFound(error)) throw error;
    stderr.write(`job ${name} not found in namespace ${namespace}; list jobs: kubectl get rjob -n ${namespace}\n`);
    return 1;
  } finally {
    await client.close();
  }
}

async function readParameters(values: CommandContext["flags"]): Promise<DispatchParameters> {
  const meta = Object.fromEntries(flags.meta.read(values));
  const file = flags.payload.read(values);
  if (file === undefined) return { meta };
  try {
    return { meta, payload: await readFile(file) };
  } catch (error) {
    throw new UsageError(`--payload: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

/** The Job of a dispatch. `suffix` makes its name unique. */
export function dispatchedJob(
  parent: DeepReadonly<Job>,
  { meta, payload }: DispatchParameters,
  suffix: string,
): NewObject<Job> {
  const { metadata, spec } = parent;
  const job = draftOf(parent, childName(metadata.name ?? "", "dispatch", suffix), {
    ...(spec.meta === undefined && Object.keys(meta).length === 0 ? {} : { meta: { ...spec.meta, ...meta } }),
    ...(payload === undefined ? {} : { payload: Buffer.from(payload).toString("base64") }),
  });
  return {
    metadata: {
      name: job.name,
      namespace: metadata.namespace,
      labels: { ...job.labels },
      ownerReferences: [controllerReference(Job, parent)],
    },
    spec: draft(job.spec),
  };
}
