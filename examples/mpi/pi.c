/*
 * Pi by the area under 4 / (1 + x^2) from 0 to 1. Every rank adds up its own strips; rank 0 prints the sum.
 *
 *   mpicc -O2 -o pi pi.c
 *   keelson mpi run -n 2 -- ./pi [STRIPS] [EXIT_STATUS_OF_THE_LAST_RANK]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  int rank, ranks;
  long strips = argc > 1 ? atol(argv[1]) : 10000000;
  int last_status = argc > 2 ? atoi(argv[2]) : 0;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  double width = 1.0 / (double)strips, area = 0.0, pi = 0.0;
  for (long strip = rank; strip < strips; strip += ranks) {
    double x = ((double)strip + 0.5) * width;
    area += 4.0 / (1.0 + x * x) * width;
  }
  MPI_Reduce(&area, &pi, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("pi is %.8f, by %d ranks and %ld strips\n", pi, ranks, strips);
    fflush(stdout);
  }

  MPI_Finalize();
  return rank == ranks - 1 ? last_status : 0;
}
