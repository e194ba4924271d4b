import type { ResourceType } from "@keelson/api-machinery";
import { serviceAccountSubject, SubjectAccessReview } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";

/** A request that a test wants to make. */
export interface Access {
  readonly verb: "get" | "list" | "create" | "patch" | "delete";
  readonly type: ResourceType;
  readonly subresource?: string;
  readonly namespace: string | undefined;
  /** Absent: all objects of the namespace. */
  readonly name?: string | undefined;
}

/** The ServiceAccount whose permissions a test has. */
export interface ServiceAccountRef {
  readonly namespace: string;
  readonly name: string;
}

/** Why a ServiceAccount may not make a request; undefined if it may. **Errors**: rejects if the API server cannot be reached. */
export async function deniedAccess(
  client: Client,
  { namespace: home, name: account }: ServiceAccountRef,
  { verb, type, subresource, namespace, name }: Access,
  signal: AbortSignal,
): Promise<string | undefined> {
  const resourceAttributes = {
    ...{ verb, group: type.group, version: type.version, resource: type.plural },
    ...(subresource === undefined ? {} : { subresource }),
    ...(namespace === undefined ? {} : { namespace }),
    ...(name === undefined ? {} : { name }),
  };
  const subject = serviceAccountSubject({ namespace: home, name: account });
  const review = await client.create(
    SubjectAccessReview,
    { metadata: {}, spec: { ...subject, resourceAttributes } },
    { signal },
  );
  if (review.status?.allowed === true) return undefined;
  const where = namespace === undefined ? "at the cluster scope" : `in the namespace ${namespace}`;
  const what = subresource === undefined ? type.plural : `${type.plural}/${subresource}`;
  return `ServiceAccount ${home}/${account} cannot ${verb} ${what} ${where}`;
}
