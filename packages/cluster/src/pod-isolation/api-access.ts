import { ignoreNotFound, type OwnerReference, parseApiVersion } from "@keelson/api-machinery";
import { RuntimeClass } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import type { ServedKinds } from "../stored-kinds.ts";
import type { PodIsolationOptions, RequestUser } from "./pod-isolation.ts";

/** The parts of an API server that decide about isolation. `ApiServer` of `@keelson/apiserver` is one. */
export interface IsolationApi {
  readonly resources: ServedKinds;
  readonly authorizer: {
    authorize(
      user: RequestUser,
      verb: string,
      target: {
        readonly group: string;
        readonly resource: string;
        readonly subresource: string;
        readonly namespace: string;
        readonly name: string;
      },
    ): { readonly allowed: boolean };
  };
}

/** Whether a user has verb `use` on a RuntimeClass. */
export function mayUseRuntimeClass({ authorizer }: IsolationApi, user: RequestUser, runtimeClass: string): boolean {
  const target = {
    group: RuntimeClass.group,
    resource: RuntimeClass.plural,
    subresource: "",
    namespace: "",
    name: runtimeClass,
  };
  return authorizer.authorize(user, "use", target).allowed;
}

/** Reads what isolation is decided upon from an API server. `client` needs full read access. */
export function isolationSources(
  api: IsolationApi,
  client: Client,
): Pick<PodIsolationOptions, "mayUse" | "handlerOf" | "ownerOf"> {
  return {
    mayUse: (user, runtimeClass) => mayUseRuntimeClass(api, user, runtimeClass),
    handlerOf: async (name) => (await ignoreNotFound(client.get(RuntimeClass, { name })))?.handler,
    async ownerOf(namespace, { apiVersion, kind, name }: OwnerReference) {
      const { group, version } = parseApiVersion(apiVersion);
      const type = api.resources.list().find((each) => each.group === group && each.version === version && each.kind === kind);
      if (type === undefined) return undefined;
      return ignoreNotFound(client.get(type, type.scope === "Namespaced" ? { namespace, name } : { name }));
    },
  };
}
