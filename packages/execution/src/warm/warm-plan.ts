import type { ProgramSpec, StartKind, WarmPlan } from "../driver.ts";

/** What a slot was prepared for. */
export interface SlotShape {
  readonly kind: Exclude<StartKind, "cold">;
  /** The spec without a command; for kind `image` with its root. */
  readonly template: Pick<ProgramSpec, "isolation" | "limits">;
  /** Directories that contain the roots of programs in a shell. */
  readonly roots: readonly string[];
}

/** Identifies slots that are interchangeable. */
export const shapeKey = ({ kind, template, roots }: SlotShape): string => JSON.stringify([kind, template, roots]);

const isBelow = (path: string, folders: readonly string[]): boolean =>
  folders.some((folder) => path === folder || path.startsWith(`${folder}/`));

/** The parts of a spec that are bound when a slot is prepared. */
function fixedParts({ isolation = {}, limits }: Pick<ProgramSpec, "isolation" | "limits">): string {
  const parts = Object.entries(isolation).filter(([name]) => name !== "root");
  return JSON.stringify([parts.sort(), limits?.diskBytes]);
}

/** Whether a program can run in a slot. */
export function fits(shape: SlotShape, spec: ProgramSpec): boolean {
  const { input, terminal, mergeOutput, timeoutMs, user } = spec;
  // A time limit counts from the start of the shim, which is older than the program.
  if ([input, terminal, mergeOutput, timeoutMs, user].some((field) => field !== undefined)) return false;
  if (fixedParts(shape.template) !== fixedParts(spec)) return false;
  const root = spec.isolation?.root;
  if (shape.kind === "image") return shape.template.isolation?.root === root;
  return root === undefined || isBelow(root, shape.roots);
}

/** The slots that a plan asks for. */
export function shapesOf(
  plan: WarmPlan,
  hasImageSlots: boolean,
): readonly { readonly shape: SlotShape; readonly count: number }[] {
  const { template, roots, images, shells, perImage } = plan;
  const { root: _, ...isolation } = template.isolation ?? {};
  const shapes = images.map((root) => ({
    shape: {
      kind: "image" as const,
      template: { ...template, isolation: { ...isolation, ...(root !== undefined && { root }) } },
      roots: [],
    },
    count: perImage,
  }));
  const shell = { kind: "shell" as const, template: { ...template, isolation }, roots };
  return [
    ...(hasImageSlots ? shapes : []),
    { shape: shell, count: shells + (hasImageSlots ? 0 : perImage * images.length) },
  ].filter(({ count }) => count > 0);
}
