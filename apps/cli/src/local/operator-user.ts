/** Namespace of the operators' service accounts. */
export const systemNamespace = "keelson-system";

/** The service account that an operator's controllers run as. */
export function operatorUser(operator: { readonly name: string }): {
  readonly username: string;
  readonly groups: readonly string[];
} {
  return {
    username: `system:serviceaccount:${systemNamespace}:${operator.name}`,
    groups: ["system:serviceaccounts", `system:serviceaccounts:${systemNamespace}`, "system:authenticated"],
  };
}
