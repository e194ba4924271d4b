import type { AdmissionStep } from "../../admission/admission.ts";
import { escalation } from "./escalation.ts";
import type { Authorizer } from "./rbac-authorizer.ts";
import { rbacGroup } from "./role-index.ts";

/**
 * The admission step that prevents privilege escalation, see {@link escalation}. It checks the final object, so it must run after all
 * mutating steps.
 */
export function createEscalationGuard(authorizer: Authorizer): AdmissionStep {
  return {
    name: "RBACEscalation",
    validate({ operation, resource, subresource, object, oldObject, user }) {
      if (resource.group !== rbacGroup || subresource !== "" || object === undefined) return;
      if (operation !== "CREATE" && operation !== "UPDATE") return;
      const refusal = escalation(authorizer, user, { plural: resource.plural, object, old: oldObject });
      if (refusal !== undefined) throw refusal;
    },
  };
}
