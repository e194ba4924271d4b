import type { Driver, ProgramSpec } from "../driver.ts";

/** Resolves when every slot that a driver is to keep is ready. */
export async function whenWarm({ warm }: Driver): Promise<void> {
  if (warm === undefined) throw new Error("this driver has no warm slots");
  const isReady = (): boolean => {
    const { shells, images } = warm.status();
    return shells.ready >= shells.desired && images.ready >= images.desired;
  };
  if (isReady()) return;
  await new Promise<void>((resolve) => {
    const stop = warm.onChange(() => {
      if (!isReady()) return;
      stop();
      resolve();
    });
  });
}

/** Makes one slot ready in which a program with this spec can start. */
export async function warmUp(driver: Driver, kind: "shell" | "image", spec: ProgramSpec): Promise<void> {
  const { isolation, limits } = spec;
  const root = isolation?.root;
  driver.warm?.keep({
    template: { ...(isolation !== undefined && { isolation }), ...(limits !== undefined && { limits }) },
    shells: kind === "shell" ? 1 : 0,
    perImage: kind === "image" ? 1 : 0,
    images: [root],
    roots: root === undefined ? [] : [root],
  });
  await whenWarm(driver);
}
