import type { LeaseObject } from "@keelson/api-machinery/kinds";
import { invalidCause, requiredCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { ensureMap, setField } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";

/** coordination.k8s.io: Leases. */
export function coordinationKinds(): readonly ServedResource[] {
  return [
    builtinResource<LeaseObject>({
      group: "coordination.k8s.io",
      version: "v1",
      kind: "Lease",
      plural: "leases",
      scope: "Namespaced",
      columns: [column("Holder", "The current holder."), ageColumn],
      cells: (object, now) => [object.spec?.holderIdentity ?? "", age(object.metadata.creationTimestamp, now)],
      strategy: {
        hasGeneration: false,
        prepareForCreate: (object) => dropElectionFields(ensureMap(object, "spec")),
        prepareForUpdate: (object, old) => {
          const spec = ensureMap(object, "spec");
          if (old.spec?.strategy === undefined && old.spec?.preferredHolder === undefined) dropElectionFields(spec);
        },
        *validate(object) {
          const duration = object.spec?.leaseDurationSeconds;
          const transitions = object.spec?.leaseTransitions;
          if (typeof duration === "number" && duration <= 0) {
            yield invalidCause("spec.leaseDurationSeconds", duration, "must be greater than 0");
          }
          if (typeof transitions === "number" && transitions < 0) {
            yield invalidCause("spec.leaseTransitions", transitions, "must be greater than or equal to 0");
          }
          if ((object.spec?.preferredHolder ?? "") !== "" && (object.spec?.strategy ?? "") === "") {
            yield requiredCause("spec.strategy", "must be specified when preferredHolder is specified");
          }
        },
      },
    }),
  ];
}

/** Drops the fields of coordinated leader election, which is off by default. */
function dropElectionFields(spec: object): void {
  for (const field of ["strategy", "preferredHolder"]) setField(spec, field, undefined);
}
