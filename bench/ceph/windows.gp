# Draws what `measure.py windows` wrote: gnuplot -e "csv='FILE'; svg='FILE'; head='...'" windows.gp
set terminal svg size 760,320 font "sans-serif,12" background "white"
set output svg
set datafile separator ","
set key off
set logscale x 2
set xlabel "window"
set xrange [0.8:80]
set grid ytics lc rgb "#dfe3e8"
set style line 1 lc rgb "#0b7a5b" lw 2 pt 7 ps 0.6
set multiplot layout 1,2 title head
fixed(x) = strcol(1) eq "rules" ? NaN : x
set ylabel "MB/s"
set yrange [0:*]
plot csv every ::1 using 1:(fixed($2)):3 with yerrorlines ls 1, \
     csv every ::1 using (80):(strcol(1) eq "rules" ? $2 : NaN) with points pt 9 ps 1 lc rgb "#b3541e"
set ylabel "median process time, ms"
set logscale y 2
set yrange [*:*]
plot csv every ::1 using 1:(fixed($4)):5 with yerrorlines ls 1, \
     csv every ::1 using (80):(strcol(1) eq "rules" ? $4 : NaN) with points pt 9 ps 1 lc rgb "#b3541e"
unset multiplot
