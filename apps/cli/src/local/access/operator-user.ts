import { serviceAccountSubject } from "@keelson/api-machinery/kinds";

/** Namespace of the operators' service accounts. */
export const systemNamespace = "keelson-system";

/** The service account that an operator's controllers run as. */
export function operatorUser(operator: { readonly name: string }): {
  readonly username: string;
  readonly groups: readonly string[];
} {
  const { user, groups } = serviceAccountSubject({ namespace: systemNamespace, name: operator.name });
  return { username: user, groups };
}
