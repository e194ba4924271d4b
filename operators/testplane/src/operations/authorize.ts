import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";

/** A review of what a user may do. The API server answers a create and stores nothing. */
interface AccessReview extends KubernetesObject {
  readonly spec: object;
  readonly status?: { readonly allowed?: boolean; readonly reason?: string };
}

const accessReviews: ResourceType<AccessReview> = {
  group: "authorization.k8s.io",
  version: "v1",
  kind: "SubjectAccessReview",
  plural: "subjectaccessreviews",
  scope: "Cluster",
};

/** A request that a test wants to make. */
export interface Access {
  readonly verb: "get" | "create" | "patch" | "delete";
  readonly type: ResourceType;
  readonly subresource?: string;
  readonly namespace: string | undefined;
  readonly name: string;
}

/** The ServiceAccount whose rights a test has. */
export interface ServiceAccountRef {
  readonly namespace: string;
  readonly name: string;
}

/** Why a ServiceAccount may not make a request; undefined if it may. **Errors**: rejects if the API server cannot be asked. */
export async function deniedAccess(
  client: Client,
  { namespace: home, name: account }: ServiceAccountRef,
  { verb, type, subresource, namespace, name }: Access,
  signal: AbortSignal,
): Promise<string | undefined> {
  const user = `system:serviceaccount:${home}:${account}`;
  const review = await client.create(
    accessReviews,
    {
      metadata: {},
      spec: {
        user,
        groups: ["system:serviceaccounts", `system:serviceaccounts:${home}`, "system:authenticated"],
        resourceAttributes: {
          verb,
          group: type.group,
          version: type.version,
          resource: type.plural,
          ...(subresource === undefined ? {} : { subresource }),
          ...(namespace === undefined ? {} : { namespace }),
          name,
        },
      },
    },
    { signal },
  );
  if (review.status?.allowed === true) return undefined;
  const where = namespace === undefined ? "at the cluster scope" : `in the namespace ${namespace}`;
  const what = subresource === undefined ? type.plural : `${type.plural}/${subresource}`;
  return `ServiceAccount ${home}/${account} cannot ${verb} ${what} ${where}`;
}
