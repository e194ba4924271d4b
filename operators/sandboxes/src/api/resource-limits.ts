import { intOrStringSchema } from "@keelson/api-machinery/schema";
import { Type } from "typebox";

/** A positive Kubernetes quantity: `500m`, `2`, `256Mi`, `1e3`. */
export const positiveQuantity =
  "^\\+?([0-9]*[1-9][0-9]*(\\.[0-9]*)?|[0-9]*\\.[0-9]*[1-9][0-9]*)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$";

const amount = (description: string) => Type.Optional(intOrStringSchema({ description, pattern: positiveQuantity }));

/** `resources` of a Sandbox, and of a pool as the default, in the format of a container. */
export const resourceLimits = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        limits: Type.Optional(
          Type.Object(
            {
              cpu: amount("CPU time, such as 500m or 2. Default: 1."),
              memory: amount("Memory including files in the work directory and /tmp, such as 256Mi. Default: 512Mi."),
            },
            { description: "Limits." },
          ),
        ),
      },
      { description },
    ),
  );
