import type { ServiceAccountObject } from "@keelson/api-machinery/kinds";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource } from "../../builtin/builtin-resource.ts";
import { builtinSchema } from "../../builtin/builtin-schemas.ts";
import type { ServedResource, Strategy } from "../../served-resource.ts";

/** ServiceAccounts. The `token` subresource issues tokens: `requestToken` answers a TokenRequest. */
export function serviceAccountKinds(requestToken: NonNullable<Strategy["evaluate"]>): readonly ServedResource[] {
  return [
    builtinResource<ServiceAccountObject>({
      group: "",
      version: "v1",
      kind: "ServiceAccount",
      plural: "serviceaccounts",
      shortNames: ["sa"],
      scope: "Namespaced",
      columns: [ageColumn],
      cells: (object, now) => [age(object.metadata.creationTimestamp, now)],
      subresources: [
        {
          name: "token",
          kind: "TokenRequest",
          group: "authentication.k8s.io",
          version: "v1",
          schema: builtinSchema("authentication.v1.TokenRequest"),
          verbs: ["create"],
          evaluate: requestToken,
        },
      ],
      strategy: { hasGeneration: false },
    }),
  ];
}
