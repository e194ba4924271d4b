import { Type } from "typebox";
import { choice, duration } from "@keelson/api-machinery/fields";

const tlsModes = ["disabled", "prefer", "require"] as const;

const secretName = Type.Optional(
  Type.String({
    description:
      "Secret with tls.crt, tls.key and ca.crt for the programs, such as one of cert-manager. Default: certificates of an authority of the App, which are created and rotated.",
    minLength: 1,
    maxLength: 253,
  }),
);

/** Schema of TLS in the spec of an App. */
export const appTls = Type.Object(
  {
    mode: Type.Optional(
      choice(
        tlsModes,
        "disabled: without TLS. prefer: programs and agents accept connections with and without TLS, and use it among themselves where it is offered. require: TLS only. A change between disabled and require must pass through prefer.",
        { default: "disabled" },
      ),
    ),
    secretName,
    gracePeriod: Type.Optional(
      duration(
        "How long clients have to trust a new authority before it signs certificates, and how long the previous one is published afterwards.",
        { default: "24h" },
      ),
    ),
  },
  { description: "TLS of clients, replication and agents." },
);

/** Schema of TLS in the spec of a Component or a Group. */
export const podTls = Type.Object(
  { mode: choice(["prefer", "require"] as const, "How programs and agents use TLS."), secretName },
  { description: "TLS of clients, replication and agents. Missing: without TLS." },
);
