import { type DeepReadonly, ignoreNotFound } from "@keelson/api-machinery";
import { Secret } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { certificateProblem } from "@keelson/middleware-agent";
import type { App } from "../../api/app.ts";
import type { Component } from "../../api/component.ts";
import { authorityName, certificateSecretName } from "../../api/names.ts";
import type { FieldError } from "../plan/validate-app.ts";
import { foreignObject } from "./publish-certificates.ts";
import { certificatesIn } from "./read-certificates.ts";

/**
 * Why an App that does not use TLS yet cannot start to: its own Secret cannot be used, or objects of others have the names of those with its
 * certificates. Checked before any Pod is created or replaced, because a Pod would not start. Empty for an App that uses TLS already, so
 * that its other changes are not held up.
 */
export async function certificateProblems(
  app: DeepReadonly<App>,
  components: readonly DeepReadonly<Component>[],
  client: Pick<Client, "get">,
  signal?: AbortSignal,
): Promise<readonly FieldError[]> {
  const { tls } = app.spec;
  if (tls?.mode === undefined || tls.mode === "disabled" || components.some(({ spec }) => spec.tls !== undefined)) return [];
  const foreign = await foreignObject(app, tls.secretName !== undefined, { client, ...(signal ? { signal } : {}) });
  const problems = foreign === undefined ? [] : [{ field: "spec.tls", message: foreign }];
  if (tls.secretName === undefined) return problems;
  const key = { namespace: app.metadata.namespace, name: tls.secretName };
  const secret = await ignoreNotFound(client.get(Secret, key, signal ? { signal } : {}));
  const problem = secret === undefined ? "not found" : certificateProblem(certificatesIn(secret));
  if (problem === undefined) return problems;
  return [...problems, { field: "spec.tls.secretName", message: `Secret ${tls.secretName}: ${problem}` }];
}

/** Whether a change of a Secret or ConfigMap with this name may solve a problem of an App's certificates. */
export function affectsCertificates({ metadata, spec }: DeepReadonly<App>, object: string | undefined): boolean {
  if (spec.tls === undefined) return false;
  const { name = "" } = metadata;
  return [authorityName(name), certificateSecretName(name), spec.tls.secretName].includes(object);
}
